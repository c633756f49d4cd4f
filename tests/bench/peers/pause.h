// The time between two operations of a training step: every rank computes by itself, so that the
// caches hold other data and waiters have gone to sleep. Then all begin at the same moment.
//
//   rank 0: NextTick ──an operation passes it to all──▶ MomentOf ──▶ ComputeUntil
//
// A moment is passed as a float, exactly: as a tick of the machine's clock, of which there are
// kTicks before they repeat.
//
// Owner: a rank's timing. Thread: its own. Memory: what it computes with, kSweptBytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace mlxcomm::bench {

class Pause {
 public:
  static constexpr double kTickSeconds = 20e-6;
  static constexpr std::uint32_t kTicks = 1 << 20;
  // A moment that seems further ahead is in the past.
  static constexpr double kAheadSecondsMax = 1;

  // The least time for which a rank computes; 0: none.
  explicit Pause(double seconds);

  bool is_one() const { return seconds_ > 0; }
  double seconds() const { return seconds_; }

  // The first moment that is a pause away once all ranks have got it, which takes
  // `telling_seconds`. Times are of Now().
  std::uint32_t NextTick(double now, double telling_seconds) const;
  // Nothing: it has passed.
  static std::optional<double> MomentOf(std::uint32_t tick, double now);
  void ComputeUntil(double moment);

 private:
  // More than a core's own caches hold.
  static constexpr std::size_t kSweptBytes = 16 << 20;

  double seconds_;
  std::vector<float> swept_;
  std::size_t next_ = 0;
};

}  // namespace mlxcomm::bench

// Lets a waiting thread keep its core until another thread seems to need it.
//
//   poll ─Keeps─▶ true: poll ─Keeps─▶ ... ─ a gap: another thread ran ─▶ 500 us more ─▶ false
//
// Yielding between all polls costs more than it gives: whenever another program runs, the thread
// gets its core back milliseconds later. A yield every 200 us costs nothing on a core of one's own.
// A gap between two polls shows that another thread had the core, and may need it again.
//
// Owner: the waiting thread, one for each wait. Thread: one.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace mlxcomm::queue {

class CoreWatch {
 public:
  static constexpr std::uint64_t kGapNs = 20'000;
  static constexpr std::uint64_t kAfterGapNs = 500'000;
  static constexpr std::uint64_t kYieldEveryNs = 200'000;

  explicit CoreWatch(std::uint64_t now_ns) : polled_ns_(now_ns), yielded_ns_(now_ns) {}

  // Call it at now_ns, after a poll that found nothing. False: another thread needs the core.
  bool Keeps(std::uint64_t now_ns) {
    const std::uint64_t gap_ns = now_ns - std::exchange(polled_ns_, now_ns);
    longest_gap_ns_ = std::max(longest_gap_ns_, gap_ns);
    if (gap_ns > kGapNs && gap_ended_ns_ == 0) gap_ended_ns_ = now_ns;
    if (now_ns - yielded_ns_ > kYieldEveryNs) {
      yielded_ns_ = now_ns;
      ::sched_yield();
    }
    return gap_ended_ns_ == 0 || now_ns - gap_ended_ns_ < kAfterGapNs;
  }
  std::uint64_t longest_gap_ns() const { return longest_gap_ns_; }

 private:
  std::uint64_t polled_ns_;
  std::uint64_t yielded_ns_;
  std::uint64_t gap_ended_ns_ = 0;  // The first one.
  std::uint64_t longest_gap_ns_ = 0;
};

// Decides which waits may keep their core. A long gap means that another thread computes there,
// such as a rank of another job, and each further one costs a slice of the scheduler. So the next
// waits yield, and twice as many if the first wait after them has a long gap as well.
//
// Owner: the waiting thread, or the lock that it holds. Thread: one at a time.
class KeepsCore {
 public:
  static constexpr std::uint64_t kLongGapNs = 1'000'000;
  static constexpr std::uint32_t kYieldLeast = 256;
  static constexpr std::uint32_t kYieldMost = 8192;

  bool Next() {
    if (yields_left_ > 0) --yields_left_;
    return yields_left_ == 0;
  }
  // Call it after each wait that kept its core.
  void Learn(std::uint64_t longest_gap_ns) {
    if (longest_gap_ns < kLongGapNs) {
      if (++kept_ >= kYieldLeast) yields_ = 0;
      return;
    }
    yields_ = std::clamp(2 * yields_, kYieldLeast, kYieldMost);
    yields_left_ = yields_;
    kept_ = 0;
  }

 private:
  std::uint32_t yields_ = 0;  // How many waits yielded after the last long gap.
  std::uint32_t yields_left_ = 0;
  std::uint32_t kept_ = 0;  // Waits without a long gap since then.
};

}  // namespace mlxcomm::queue

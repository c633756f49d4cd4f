// Lets a waiting thread keep its core until another thread seems to need it.
//
//   poll ─Keeps─▶ true: poll ─Keeps─▶ ... ─ a gap: another thread ran ─▶ 500 us more ─▶ false
//
// Where each waiting rank has a core, yielding costs more than it gives: whenever another program
// runs, the scheduler counts a yield as time that was used, and the thread gets its core back
// milliseconds later. Sleeping costs a wake-up. If the core is shared, the scheduler takes it away
// after its slice, and the gap between two polls shows that. What the thread waits for may then
// need this core.
//
// Owner: the waiting thread, one for each wait. Thread: one.
#pragma once

#include <cstdint>

namespace mlxcomm::queue {

class CoreWatch {
 public:
  static constexpr std::uint64_t kGapNs = 20'000;
  static constexpr std::uint64_t kAfterGapNs = 500'000;

  explicit CoreWatch(std::uint64_t now_ns) : polled_ns_(now_ns) {}

  // Call it at now_ns, after a poll that found nothing. False: another thread wants the core.
  bool Keeps(std::uint64_t now_ns) {
    if (now_ns - polled_ns_ > kGapNs && gap_ns_ == 0) gap_ns_ = now_ns;
    polled_ns_ = now_ns;
    return gap_ns_ == 0 || now_ns - gap_ns_ < kAfterGapNs;
  }

 private:
  std::uint64_t polled_ns_;
  std::uint64_t gap_ns_ = 0;  // When the first gap ended.
};

}  // namespace mlxcomm::queue

// Decides how long a waiting thread spins before it sleeps, based on its last waits.
//
//   nothing found ─LookAgain─▶ true: poll ─▶ true: poll ─▶ false: sleep ─▶ ...
//                                  '──────── Found ◀────────────'
//
// A thread spins only if many of its last waits were short (at most `most_ns`), and then not much
// longer than these; otherwise for `least_ns`. A thread that yields and does not get its core back
// soon sees a long wait, and learns to sleep: a woken thread runs sooner than one that yielded.
//
// Owner: the waiting thread, or the lock that it holds. Thread: one at a time.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>

namespace mlxcomm::queue {

struct SpinLimits {
  std::uint64_t least_ns = 0;
  std::uint64_t most_ns = 0;
  bool gives_way = false;  // Yield between polls, because cores are scarce.
};

class AdaptiveSpin {
 public:
  explicit AdaptiveSpin(SpinLimits limits = {}) : limits_(limits) {}

  static constexpr std::uint64_t kSoonNs = 10'000;

  // Call it when nothing was found at now_ns. True means poll again at once, false means sleep.
  // `is_soon`: something is expected within microseconds.
  bool LookAgain(std::uint64_t now_ns, bool is_soon = false) {
    if (idle_since_ns_ == 0) idle_since_ns_ = now_ns;
    if (looking_ && now_ns - looked_ns_ > limits_.most_ns) Learn(UINT64_MAX);
    looked_ns_ = now_ns;
    looking_ = now_ns - idle_since_ns_ < budget_ns();
    if (looking_) {
      const bool keeps_core = is_soon && now_ns - idle_since_ns_ < kSoonNs;
      keeps_core ? PauseCore() : Pause(limits_);
    }
    return looking_;
  }
  // Call it when something was found, after any number of polls and sleeps.
  void Found(std::uint64_t now_ns) {
    looking_ = false;
    if (idle_since_ns_ == 0) return;
    Learn(now_ns - idle_since_ns_);
    idle_since_ns_ = 0;
  }

  // Serves several waiters on one source; returns true if something has arrived since the last
  // call. `arrived` counts arrivals for any of them.
  bool Saw(std::uint64_t arrived, std::uint64_t now_ns) {
    if (arrived == arrived_) return false;
    arrived_ = arrived;
    Found(now_ns);
    return true;
  }

  // Used by callers that measure the time themselves.
  std::uint64_t budget_ns() const {
    if (short_share_ < kWorthwhile) return limits_.least_ns;
    return std::min(limits_.most_ns, limits_.least_ns + 4 * short_ns_);
  }
  const SpinLimits& limits() const { return limits_; }
  void Learn(std::uint64_t waited_ns) {
    const bool is_short = waited_ns <= limits_.most_ns;
    short_share_ = short_share_ - short_share_ / 8 + (is_short ? kAlways / 8 : 0);
    if (is_short) short_ns_ = short_ns_ - short_ns_ / 8 + waited_ns / 8;
  }
  static void Pause(const SpinLimits& limits) {
    if (limits.gives_way) {
      ::sched_yield();
    } else {
      PauseCore();
    }
  }
  static void PauseCore() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

 private:
  static constexpr std::uint32_t kAlways = 1024;
  static constexpr std::uint32_t kWorthwhile = kAlways / 4;

  SpinLimits limits_;
  // Moving averages: the share of short waits, and their length.
  std::uint32_t short_share_ = kAlways;
  std::uint64_t short_ns_ = limits_.most_ns / 4;
  std::uint64_t idle_since_ns_ = 0;
  std::uint64_t looked_ns_ = 0;
  std::uint64_t arrived_ = 0;
  bool looking_ = false;
};

}  // namespace mlxcomm::queue

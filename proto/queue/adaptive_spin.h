// How long a waiter spins before it sleeps, learnt from how soon the last answers came.
//
//   nothing to do ─LookAgain─▶ true: look ─▶ true: look ─▶ false: sleep ─▶ ...
//                                  '──────── Found ◀────────────'
//
// Waking a sleeper costs ten times as much as reaching a thread that spins, but spinning in vain
// takes a core from other work. So a waiter spins only where a good part of its last waits were
// short, at most `most_ns`, and then not much longer than those were; otherwise for `least_ns`. See
// ../README.md, AdaptiveSpin.
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
  bool gives_way = false;  // Cores are scarce: other threads need this one.
};

class AdaptiveSpin {
 public:
  explicit AdaptiveSpin(SpinLimits limits = {}) : limits_(limits) {}

  static constexpr std::uint64_t kSoonNs = 10'000;

  // Nothing was found at now_ns. True: look again at once; false: sleep. `is_soon`: the answer is
  // expected within some microseconds.
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
  // Something was found, after any number of looks and sleeps.
  void Found(std::uint64_t now_ns) {
    looking_ = false;
    if (idle_since_ns_ == 0) return;
    Learn(now_ns - idle_since_ns_);
    idle_since_ns_ = 0;
  }

  // For one of several waiters for the same source. `arrived` counts what came for any of them,
  // because an entry that another waiter took was worth spinning for, too: a waiter that slept
  // until its own came would have to be woken each time, perhaps too late. True: something came
  // since the last call.
  bool Saw(std::uint64_t arrived, std::uint64_t now_ns) {
    if (arrived == arrived_) return false;
    arrived_ = arrived;
    Found(now_ns);
    return true;
  }

  // For waiters that keep the time themselves.
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
  // Between two looks.
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
  // Means over the last waits; the newest count most.
  std::uint32_t short_share_ = kAlways;
  std::uint64_t short_ns_ = limits_.most_ns / 4;  // Of the short ones.
  std::uint64_t idle_since_ns_ = 0;
  std::uint64_t looked_ns_ = 0;
  std::uint64_t arrived_ = 0;
  bool looking_ = false;
};

}  // namespace mlxcomm::queue

// Decides how often a rank checks for the others before it first yields its core, and adapts to
// whether that was enough recently.
//
// Ranks with a core each meet within a microsecond, and a system call would cost as much again. If
// two ranks share a core, one that keeps checking only delays the other.
//
// Owner: Pages. Thread: under the session's lock.
#pragma once

#include <cstdint>

namespace mlxcomm::client {

class FirstLooks {
 public:
  static constexpr int kMany = 200;  // Two to ten microseconds.
  static constexpr int kFew = 8;
  static constexpr int kUnderLocksMost = 40;  // One or two microseconds.

  int Next() {
    if (share_ >= kWorthwhile) return kMany;
    return ++few_ % kFewBeforeTrial == 0 ? kMany : kFew;
  }
  // Returns the number for a thread that holds the lock while it checks.
  int UnderLocks() const { return share_ >= kWorthwhile ? kUnderLocksMost : kFew; }
  // Few checks predict nothing about many: of two ranks on one core, each immediately finds what
  // the other called while it had the core.
  void Learn(int looks, bool enough) {
    if (looks > kFew) share_ = share_ - share_ / 8 + (enough ? kAlways / 8 : 0);
  }

 private:
  static constexpr std::uint32_t kAlways = 1024;
  static constexpr std::uint32_t kWorthwhile = kAlways / 4;
  static constexpr std::uint32_t kFewBeforeTrial = 32;

  // Successes of the last waits with many checks; the newest count most.
  std::uint32_t share_ = kAlways;
  std::uint32_t few_ = 0;
};

}  // namespace mlxcomm::client

// How a test polls: it checks again at once as long as events happen, and yields the core
// otherwise. Tests run next to others on few cores, and the threads and processes that they wait
// for need these cores.
//
// Owner: the waiting test, for as long as it waits. Thread: its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <thread>

#include "tests/unit/never.h"

namespace mlxcomm {

class Looks {
 public:
  // Returns when it is time for the next check. `happened` means that this check found something to
  // do.
  void Rest(bool happened = false) {
    if (happened) {
      idle_ = 0;
    } else if (++idle_ > kAtOnce) {
      std::this_thread::sleep_for(kPause);
    } else {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr std::size_t kAtOnce = 200;
  static constexpr std::chrono::microseconds kPause{100};
  std::size_t idle_ = 0;
};

// Polls until the condition holds, or fails the test.
template <typename Condition>
void LookUntil(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kNever;
  for (Looks looks; !condition(); looks.Rest()) {
    if (std::chrono::steady_clock::now() < end) continue;
    FAIL() << "what was waited for did not come";
  }
}

}  // namespace mlxcomm

// Keeps macOS from saving power at the expense of latency. Linux does not, so nothing happens
// there.
#pragma once

#include <memory>

namespace mlxcomm::platform {

// Marks the calling thread as one that a user waits for. Under load macOS otherwise runs it on
// efficiency cores and delays its timers. Neither threads nor started programs inherit the mark.
void RaiseThreadPriority();

// Keeps the machine awake while a job runs on it or through it; otherwise its links would time out.
//
// Uses a power assertion on macOS, which ends with the process. Closing the lid and choosing
// "Sleep" still work.
//
// Owner: Loop. Thread: Want from one; it does not block, because a thread of its own calls the
// system. Memory: that thread, from the first Want on.
class SleepGuard {
 public:
  SleepGuard();
  ~SleepGuard();

  void Want(bool awake);

 private:
  struct Keeper;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace mlxcomm::platform

// Keeps the system from saving power at the cost of who waits. Linux does not do that by itself, and
// desktop sessions have their own settings: nothing happens there.
#pragma once

#include <memory>

namespace mlxcomm::platform {

// Tells the system that the user waits for the calling thread: loop, rails, workers, callers of a
// device's driver. Under load macOS runs threads without such a class on its efficiency cores and
// lets their timers be late; neither threads nor started programs inherit it.
void ServeWhoWaits();

// Keeps the machine from going to sleep by itself while a job runs on it or through it: its links
// would time out.
//
// macOS: an assertion of power management, which ends with the process in every case. Not
// caffeinate below mlxcommctl launch, because ranks may be started in any way, and the daemon knows
// whether there is a job. Closing the lid and choosing "Sleep" still work.
//
// Owner: the part that knows of jobs. Thread: Want from one; it does not wait, because asking the
// system may take milliseconds: a thread of its own does that, from the first Want on. Memory: on
// macOS a thread.
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

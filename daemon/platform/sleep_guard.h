// Keeps the machine from going to sleep by itself while a job runs, here or through here: its links
// would time out.
//
// macOS: an assertion of power management, which ends with the process, however that ends. Not
// caffeinate below mlxcommctl launch: ranks may be started by anything, and the daemon is what knows
// whether there is a job. A lid that is closed, or who chooses "Sleep", is obeyed.
// Linux: nothing; servers do not sleep by themselves, and a desktop's session has its own ways.
//
// Owner: who knows of jobs. Thread: Want from one; it does not wait, for asking the system may take
// milliseconds: a thread of its own does that, from the first Want on. Memory: on macOS a thread.
#pragma once

#include <memory>

namespace mlxcomm::platform {

class SleepGuard {
 public:
  SleepGuard();
  SleepGuard(const SleepGuard&) = delete;
  SleepGuard& operator=(const SleepGuard&) = delete;
  ~SleepGuard();

  void Want(bool awake);

 private:
  struct Keeper;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace mlxcomm::platform

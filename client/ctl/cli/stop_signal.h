// Waits that SIGINT and SIGTERM end, for verbs that go on until somebody stops them: to be
// stopped is then their proper end.
//
// Owner: the verb; one at a time. Thread: main makes it, before others exist, so that they
// inherit the mask. Memory: none.
#pragma once

#include <csignal>
#include <cstdint>

namespace mlxcomm::ctl {

class StopSignal {
 public:
  StopSignal();  // From here on the two come here alone.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // True: somebody wants it to stop; false: the time is over.
  bool WaitFor(std::uint64_t ns);
  // Ends the process well (exit code 0) at the first of the two, also while it waits elsewhere.
  void EndProcess();

 private:
  bool IsPending() const;

  sigset_t set_;
  sigset_t before_;
};

}  // namespace mlxcomm::ctl

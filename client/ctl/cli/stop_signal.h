// Waits that SIGINT and SIGTERM end, for verbs that go on until they are stopped: that is their
// normal end.
//
// Owner: the verb; one at a time. Thread: main makes it, before there are other threads, so that
// they inherit the mask.
#pragma once

#include <csignal>
#include <cstdint>

namespace mlxcomm::ctl {

class StopSignal {
 public:
  StopSignal();  // From here on only this gets the two signals.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // True: a signal has come; false: the time is over.
  bool WaitFor(std::uint64_t ns);
  // Ends the process with exit code 0 at the first of the two signals, even while it waits
  // elsewhere.
  void EndProcess();

 private:
  bool IsPending() const;

  sigset_t set_;
  sigset_t before_;
};

}  // namespace mlxcomm::ctl

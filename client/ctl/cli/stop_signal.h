// Waits that SIGINT and SIGTERM interrupt, for verbs that run until stopped.
//
// Owner: the verb; one at a time. Thread: main creates it before other threads, which inherit the
// mask.
#pragma once

#include <csignal>
#include <cstdint>

namespace mlxcomm::ctl {

class StopSignal {
 public:
  StopSignal();  // Blocks the two signals.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Returns whether a signal came before the timeout.
  bool WaitFor(std::uint64_t ns);
  // From now on either signal ends the process with exit code 0, wherever it waits.
  void EndProcess();

 private:
  bool IsPending() const;

  sigset_t set_;
  sigset_t before_;
};

}  // namespace mlxcomm::ctl

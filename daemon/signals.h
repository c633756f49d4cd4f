// The signals that end the daemon, taken in one place.
//
// Owner: main. Thread: Block() before any other thread exists, so that all inherit
// the mask; Wait() on the main thread; RequestStop() from any. Memory: none.
#pragma once

namespace mlxcomm {

class TerminationSignals {
 public:
  TerminationSignals() = default;
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // SIGTERM and SIGINT wait for Wait(); SIGPIPE is ignored.
  void Block();
  // Returns at SIGTERM, SIGINT or RequestStop(). From then on a further SIGTERM or
  // SIGINT ends the process at once.
  void Wait();
  void RequestStop();
};

}  // namespace mlxcomm

// The signals that end the daemon, taken in one place.
//
//   Block() ─▶ Wait() ─SIGHUP─▶ on_hangup, waits on
//                     ─SIGTERM, SIGINT, RequestStop(),
//                      SIGHUP because its terminal has gone─▶ returns; the next SIGTERM
//                                                  or SIGINT ends the process at once
//
// Owner: main. Thread: Block() before any other thread exists, so that all inherit
// the mask; Wait() on the main thread; RequestStop() from any. Memory: none.
#pragma once

#include <functional>

namespace mlxcomm {

class TerminationSignals {
 public:
  TerminationSignals() = default;
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // From here on signals wait for Wait(); SIGPIPE is ignored.
  // A private daemon ends with its clients, not with the terminal that one of them had.
  void Block(bool is_private);
  void Wait(const std::function<void()>& on_hangup);
  // As a SIGTERM, but harmless once Wait() has returned.
  void RequestStop();

 private:
  bool ends_with_terminal_ = false;  // It has one, is not private, and no nohup before it.
};

}  // namespace mlxcomm

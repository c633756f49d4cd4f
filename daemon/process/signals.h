// The signals that the daemon hears, taken in one place.
//
//   Block() ─▶ Wait() ─SIGHUP─▶ on_hangup, waits on
//                     ─SIGUSR2─▶ on_restart, waits on
//                     ─SIGUSR1─▶ on_take_back (of on_restart), waits on
//                     ─NotifyIdle()─▶ on_idle; true: returns, for another program to take over
//                     ─SIGTERM, SIGINT, RequestStop(),
//                      SIGHUP because its terminal has gone─▶ returns; the next SIGTERM
//                                                  or SIGINT ends the process at once
//
// Owner: main. Thread: Block() before any other thread exists, so that all inherit
// the mask; Wait() on the main thread; RequestStop() and NotifyIdle() from any. Memory: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace mlxcomm {

class TerminationSignals {
 public:
  struct Handlers {
    std::function<void()> on_hangup;
    std::function<void()> on_restart;
    std::function<void()> on_take_back;
    std::function<bool()> on_idle;
  };
  enum class Ending : std::uint8_t { kStop, kTakenOver };

  // From here on signals wait for Wait(); SIGPIPE is ignored.
  // A private daemon ends with its clients, not with the terminal that one of them had.
  void Block(bool is_private);
  Ending Wait(const Handlers& handlers);
  // As a SIGTERM, but harmless once Wait() has returned.
  void RequestStop();
  void NotifyIdle();

 private:
  bool ends_with_terminal_ = false;  // It has one, is not private, and no nohup before it.
  std::atomic<bool> stop_requested_{false};
};

}  // namespace mlxcomm

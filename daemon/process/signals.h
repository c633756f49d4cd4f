// The daemon's signals, handled in one place.
//
//   Block() ─▶ Wait() ─SIGHUP─▶ on_hangup, keeps waiting
//                     ─SIGUSR2─▶ on_restart, keeps waiting
//                     ─SIGUSR1─▶ on_take_back (cancels on_restart), keeps waiting
//                     ─NotifyIdle()─▶ on_idle; true: returns, for another program to take over
//                     ─SIGTERM, SIGINT, RequestStop(),
//                      SIGHUP if the terminal is gone─▶ returns; the next SIGTERM or SIGINT ends
//                                                       the process at once
//
// Owner: main. Thread: Block() before any other thread exists, so that all inherit the mask; Wait()
// on main; the rest from any. Memory: none.
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

  // Queues signals for Wait(); ignores SIGPIPE. A private daemon ignores the end of its terminal.
  void Block(bool is_private);
  Ending Wait(const Handlers& handlers);
  // Like a SIGTERM, but harmless once Wait() has returned.
  void RequestStop();
  void NotifyIdle();

 private:
  bool ends_with_terminal_ = false;
  std::atomic<bool> stop_requested_{false};
};

}  // namespace mlxcomm

#include "client/ctl/cli/stop_signal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace mlxcomm::ctl {

StopSignal::StopSignal() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
}

StopSignal::~StopSignal() {
  while (IsPending()) {  // Already handled.
    int number = 0;
    ::sigwait(&set_, &number);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignal::IsPending() const {
  sigset_t pending;
  ::sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

// macOS has no sigtimedwait, so this polls the pending signals.
bool StopSignal::WaitFor(std::uint64_t ns) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::nanoseconds(ns);
  for (;;) {
    if (IsPending()) return true;
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    std::this_thread::sleep_for(std::min<Clock::duration>(left, std::chrono::milliseconds(20)));
  }
}

void StopSignal::EndProcess() {
  std::signal(SIGINT, [](int) { ::_exit(0); });
  std::signal(SIGTERM, [](int) { ::_exit(0); });
  ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
}

}  // namespace mlxcomm::ctl

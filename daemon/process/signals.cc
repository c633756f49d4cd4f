#include "daemon/process/signals.h"

#include <csignal>
#include <initializer_list>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "proto/system/file_descriptor.h"

namespace mlxcomm {
namespace {

// Sent by RequestStop and NotifyIdle. Never unblocked: a draining private daemon must not be ended
// by its own request. Other processes may send it, so on_idle checks whether the daemon is idle.
constexpr int kOwnSignal = SIGALRM;
constexpr int kRestartSignal = SIGUSR2;
constexpr int kTakeBackSignal = SIGUSR1;

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

sigset_t Watched() {
  return SetOf({SIGTERM, SIGINT, SIGHUP, kRestartSignal, kTakeBackSignal, kOwnSignal});
}

bool HasTerminal() {
  return FileDescriptor(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)).valid();
}

}  // namespace

void TerminationSignals::Block(bool is_private) {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // macOS drops ignored signals even if they are blocked, and exec preserves ignored signals and
  // alarms.
  for (const int own : {kOwnSignal, kRestartSignal, kTakeBackSignal}) std::signal(own, SIG_DFL);
  ::alarm(0);
  // nohup ignores SIGHUP; the log must be reopened in that case, too.
  const bool survives = std::signal(SIGHUP, SIG_DFL) == SIG_IGN || is_private;
  ends_with_terminal_ = !survives && HasTerminal();
}

TerminationSignals::Ending TerminationSignals::Wait(const Handlers& handlers) {
  const sigset_t set = Watched();
  for (;;) {
    int taken = 0;
    if (sigwait(&set, &taken) != 0) continue;
    if (taken == kRestartSignal) {
      handlers.on_restart();
    } else if (taken == kTakeBackSignal) {
      handlers.on_take_back();
    } else if (taken == kOwnSignal && !stop_requested_) {
      if (handlers.on_idle()) return Ending::kTakenOver;
    } else if (taken == SIGHUP && !(ends_with_terminal_ && !HasTerminal())) {
      handlers.on_hangup();
    } else {  // A daemon that outlived its terminal would be forgotten.
      break;
    }
  }
  const sigset_t impatient = SetOf({SIGTERM, SIGINT});
  pthread_sigmask(SIG_UNBLOCK, &impatient, nullptr);
  return Ending::kStop;
}

// Sent to the whole process; it is blocked in every thread, so sigwait takes it.
void TerminationSignals::RequestStop() {
  stop_requested_ = true;
  ::kill(::getpid(), kOwnSignal);
}

void TerminationSignals::NotifyIdle() { ::kill(::getpid(), kOwnSignal); }

}  // namespace mlxcomm

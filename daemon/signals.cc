#include "daemon/signals.h"

#include <csignal>

#include <pthread.h>
#include <unistd.h>

namespace mlxcomm {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void TerminationSignals::Block() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void TerminationSignals::Wait() {
  const sigset_t set = Watched();
  int taken = 0;
  while (sigwait(&set, &taken) != 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// A signal to the whole process: blocked everywhere, so sigwait takes it.
void TerminationSignals::RequestStop() { ::kill(::getpid(), SIGTERM); }

}  // namespace mlxcomm

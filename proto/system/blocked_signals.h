// While one of these is there, its thread takes no signal, nor does a thread that it starts then, nor a
// process until that leaves the scope itself: the program's own threads handle signals.
//
// Owner: a scope. Thread: the one that makes it.
#pragma once

#include <signal.h>

namespace mlxcomm {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace mlxcomm

// A child process of a test: it ends with the test, and a child that hangs ends by itself.
//
// A forked child has the parent's memory and one of its threads, and a lock that another thread
// held stays locked: a sanitizer's own, too. And who collects a test's output waits for all who
// have it open. So nobody may wait for a child for ever, nor leave it behind.
//
// Owner: the test. Thread: one. Memory: none.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "tests/unit/never.h"

namespace mlxcomm {

// To be called first in every child, and in its children.
inline void EndWithoutFail() { ::alarm(std::chrono::seconds(kNever / 2).count()); }

class ForkedChild {
 public:
  // In the child: `main`, and then its end with code 0 where that gave true, else 1.
  template <typename Main>
  explicit ForkedChild(Main main) : pid_(::fork()) {
    if (pid_ != 0) return;
    EndWithoutFail();
    ::_exit(main() ? 0 : 1);
  }
  ~ForkedChild() {
    Kill();
    Wait();
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

  pid_t pid() const { return pid_; }  // -1: there is none.
  bool Kill() { return pid_ > 0 && ::kill(pid_, SIGKILL) == 0; }
  // Its status, as waitpid() gives it; -1: there is no child any more.
  int Wait() {
    int status = -1;
    const pid_t pid = std::exchange(pid_, -1);
    return pid > 0 && ::waitpid(pid, &status, 0) == pid ? status : -1;
  }

 private:
  pid_t pid_;
};

}  // namespace mlxcomm

// A child process of a test: it ends with the test, and a child that hangs ends on its own.
//
// A forked child has the parent's memory and only one of its threads; a lock that another thread
// held stays locked, even a sanitizer's own. The reader of a test's output also waits for all
// processes that have it open. So a test must never wait forever for a child, or leave it behind.
//
// Owner: the test. Thread: one.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "tests/unit/never.h"

namespace mlxcomm {

// Call it first in every child, and in its children.
inline void EndWithoutFail() { ::alarm(std::chrono::seconds(kNever / 2).count()); }

class ForkedChild {
 public:
  // In the child: calls `main`, and exits with 0 if that returned true, otherwise with 1.
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

  pid_t pid() const { return pid_; }  // -1 if there is none.
  bool Kill() { return pid_ > 0 && ::kill(pid_, SIGKILL) == 0; }
  // Its status, as from waitpid(); -1 if the child no longer exists.
  int Wait() {
    int status = -1;
    const pid_t pid = std::exchange(pid_, -1);
    return pid > 0 && ::waitpid(pid, &status, 0) == pid ? status : -1;
  }

 private:
  pid_t pid_;
};

}  // namespace mlxcomm

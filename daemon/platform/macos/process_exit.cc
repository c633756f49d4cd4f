#include "daemon/platform/process_exit.h"

#include <fcntl.h>
#include <sys/event.h>
#include <unistd.h>

#include <cerrno>

namespace mlxcomm::platform {

// A kqueue can itself be waited for: it is readable while an event is pending.
FileDescriptor WatchProcessExit(pid_t pid) {
  if (pid <= 0) {
    errno = EINVAL;
    return {};
  }
  FileDescriptor queue(::kqueue());
  if (!queue.valid()) return {};
  ::fcntl(queue.get(), F_SETFD, FD_CLOEXEC);
  struct kevent change;
  EV_SET(&change, static_cast<uintptr_t>(pid), EVFILT_PROC, EV_ADD | EV_ONESHOT, NOTE_EXIT, 0,
         nullptr);
  if (::kevent(queue.get(), &change, 1, nullptr, 0, nullptr) != 0) {
    const int reason = errno;  // Closing the queue must not hide it.
    queue.Reset();
    errno = reason;
    return {};
  }
  return queue;
}

}  // namespace mlxcomm::platform

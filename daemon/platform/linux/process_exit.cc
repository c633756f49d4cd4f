#include "daemon/platform/process_exit.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace mlxcomm::platform {

FileDescriptor WatchProcessExit(pid_t pid) {
  if (pid <= 0) {
    errno = EINVAL;  // A process of another namespace has no number here.
    return {};
  }
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // Close-on-exec.
}

}  // namespace mlxcomm::platform

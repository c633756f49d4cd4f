#include "daemon/platform/process_exit.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace mlxcomm::platform {

FileDescriptor WatchProcessExit(pid_t pid) {
  if (pid <= 0) return {};
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // Close-on-exec.
}

}  // namespace mlxcomm::platform

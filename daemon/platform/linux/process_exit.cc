#include "daemon/platform/process_exit.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace mlxcomm::platform {

FileDescriptor StartWatchingExit(pid_t pid, std::uint64_t&) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // Close-on-exec.
}

void StopWatchingExit(pid_t, std::uint64_t) {}

}  // namespace mlxcomm::platform

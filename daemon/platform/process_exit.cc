#include "daemon/platform/process_exit.h"

#include <cerrno>
#include <utility>

namespace mlxcomm::platform {

ProcessExit ProcessExit::Watch(pid_t pid) {
  ProcessExit exit;
  if (pid <= 0) {
    errno = EINVAL;  // Processes of other namespaces have no pid here.
    return exit;
  }
  exit.pid_ = pid;
  exit.descriptor_ = StartWatchingExit(pid, exit.number_);
  return exit;
}

ProcessExit& ProcessExit::operator=(ProcessExit&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(number_, other.number_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

ProcessExit::~ProcessExit() {
  if (number_ != 0) StopWatchingExit(pid_, number_);
}

}  // namespace mlxcomm::platform

#include "daemon/platform/machine.h"

#include <unistd.h>

#include <chrono>

#include "proto/queue/dial.h"

namespace mlxcomm::platform {

std::uint64_t MonotonicNow() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  const std::string full(name);
  return full.substr(0, full.find('.'));
}

std::string DefaultSocketPath() {
  if (::geteuid() == 0) return queue::kServiceSocket;
  return queue::PrivateSocketPath();
}

std::string DefaultStateDirectory() {
  if (::geteuid() == 0) return "/var/lib/mlxcommd";
  const std::string state = queue::Environment("XDG_STATE_HOME");
  if (!state.empty()) return state + "/mlxcommd";
  const std::string home = queue::Environment("HOME");
  return (home.empty() ? std::string("/tmp") : home) + "/.local/state/mlxcommd";
}

}  // namespace mlxcomm::platform

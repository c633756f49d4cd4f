#include "daemon/platform/system_facts.h"

#include <dirent.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#include <sys/types.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

std::string SystemName() {
  utsname name{};
  if (::uname(&name) < 0) return {};
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::uint64_t OpenFilesMax() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max()
                                         : static_cast<std::uint64_t>(limit.rlim_cur);
}

void RaiseOpenFilesMax() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlim_t wanted = std::min<rlim_t>(limit.rlim_max, 65'536);
#if defined(__APPLE__)
  // The hard limit may be "unlimited", but values above this are refused.
  int most = 0;
  std::size_t length = sizeof most;
  if (::sysctlbyname("kern.maxfilesperproc", &most, &length, nullptr, 0) == 0 && most > 0) {
    wanted = std::min(wanted, static_cast<rlim_t>(most));
  }
#endif
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  // If refused, clients receive an error once the limit is reached.
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t OpenFiles() {
  DIR* const folder = ::opendir("/dev/fd");
  if (folder == nullptr) return 0;
  std::uint64_t count = 0;
  while (const dirent* const entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count > 0 ? count - 1 : 0;  // Leaves out the descriptor of this folder.
}

std::uint64_t AddressSpaceMax() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return static_cast<std::uint64_t>(limit.rlim_cur);
}

std::uint64_t LockedBytesMax() {
#if defined(__linux__)
  rlimit limit{};
  if (::geteuid() == 0 || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? 0 : static_cast<std::uint64_t>(limit.rlim_cur);
#else
  return 0;
#endif
}

std::uint32_t InterfaceMtu(const std::string& name) {
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return 0;
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM, 0));
  if (socket.get() < 0) return 0;
  std::memcpy(request.ifr_name, name.data(), name.size());
  if (::ioctl(socket.get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return 0;
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

std::uint64_t UnixNow() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count());
}

}  // namespace mlxcomm::platform

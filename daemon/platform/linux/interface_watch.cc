#include "daemon/platform/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "daemon/platform/interfaces.h"

namespace mlxcomm::platform {

absl::StatusOr<FileDescriptor> OpenInterfaceEvents() {
  FileDescriptor events(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!events.valid() ||
      ::bind(events.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch the network interfaces: ", std::strerror(errno)));
  }
  return events;
}

// An overflow (ENOBUFS) counts as an event: keep reading.
std::vector<std::string> DrainInterfaceEvents(const FileDescriptor& events) {
  std::vector<std::string> ready;
  alignas(nlmsghdr) char buffer[8192];
  for (;;) {
    const ssize_t got = ::recv(events.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == ENOBUFS || errno == EINTR)) continue;
    if (got <= 0) return ready;
    auto left = static_cast<std::uint32_t>(got);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type != RTM_NEWADDR) continue;
      if (message->nlmsg_len < NLMSG_LENGTH(sizeof(ifaddrmsg))) continue;
      const auto* const address = static_cast<const ifaddrmsg*>(NLMSG_DATA(message));
      char name[IF_NAMESIZE] = {};
      if ((address->ifa_flags & IFA_F_TENTATIVE) != 0) continue;
      if (::if_indextoname(address->ifa_index, name) != nullptr) ready.emplace_back(name);
    }
  }
}

// IFF_RUNNING already shows it.
bool HasCarrier(const std::string&) { return true; }

bool IsBridgeMember(const std::string& interface) {
  return ::access(("/sys/class/net/" + interface + "/brport").c_str(), F_OK) == 0;
}

bool IsThunderboltNetwork(const std::string& interface_name) {
  if (interface_name.empty() || interface_name.find('/') != std::string::npos) return false;
  const std::filesystem::path folder = "/sys/class/net/" + interface_name;
  std::error_code error;
  const std::filesystem::path driver =
      std::filesystem::read_symlink(folder / "device" / "driver", error);
  if (error || driver.filename() != "thunderbolt-net") return false;
  return !std::filesystem::exists(folder / "master", error) && !error;
}

}  // namespace mlxcomm::platform

#include "daemon/platform/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

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
        absl::StrCat("the system does not tell of network interfaces: ", std::strerror(errno)));
  }
  return events;
}

// An overflow (ENOBUFS) is an event as well: read on until there is nothing.
void DrainInterfaceEvents(const FileDescriptor& events) {
  char ignored[8192];
  for (;;) {
    const ssize_t got = ::recv(events.get(), ignored, sizeof ignored, MSG_DONTWAIT);
    if (got < 0 && (errno == ENOBUFS || errno == EINTR)) continue;
    if (got <= 0) return;
  }
}

// IFF_RUNNING says it.
bool HasCarrier(const std::string&) { return true; }

}  // namespace mlxcomm::platform

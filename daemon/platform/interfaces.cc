#include "daemon/platform/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include <asio/ip/address.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/interface_watch.h"

namespace mlxcomm::platform {
namespace {

using Addresses = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

absl::StatusOr<Addresses> ReadAddresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot list the network interfaces: ", std::strerror(errno)));
  }
  return Addresses(first, &::freeifaddrs);
}

template <typename Address>
Address As(const sockaddr* any) {
  Address address{};
  std::memcpy(&address, any, sizeof address);
  return address;
}

// An address without its port; the IPv4 address if it is mapped into IPv6; empty for other
// families.
std::string TextOf(const sockaddr* any, std::string* scope) {
  char text[INET6_ADDRSTRLEN] = {};
  if (any->sa_family == AF_INET) {
    const auto four = As<sockaddr_in>(any);
    return ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text) == nullptr ? "" : text;
  }
  if (any->sa_family != AF_INET6) return {};
  auto six = As<sockaddr_in6>(any);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    return ::inet_ntop(AF_INET, six.sin6_addr.s6_addr + 12, text, sizeof text) == nullptr ? ""
                                                                                          : text;
  }
  if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) {
    // BSD's kernel stores the scope inside the address and returns it that way in lists.
    if (six.sin6_scope_id == 0) {
      six.sin6_scope_id =
          static_cast<std::uint32_t>(six.sin6_addr.s6_addr[2] << 8 | six.sin6_addr.s6_addr[3]);
    }
#if defined(__APPLE__)
    six.sin6_addr.s6_addr[2] = six.sin6_addr.s6_addr[3] = 0;
#endif
    char name[IF_NAMESIZE] = {};
    if (::if_indextoname(six.sin6_scope_id, name) != nullptr) *scope = name;
  }
  return ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text) == nullptr ? "" : text;
}

// Also true for the name and any other address of a loopback interface.
bool IsLoopback(const std::string& text) {
  asio::error_code ignored;
  if (asio::ip::make_address(text, ignored).is_loopback()) return true;
  const absl::StatusOr<std::vector<NetworkInterface>> all = ListInterfaces();
  if (!all.ok()) return false;
  return std::any_of(all->begin(), all->end(), [&](const NetworkInterface& one) {
    return one.loopback && (one.name == text || std::ranges::count(one.addresses, text) > 0);
  });
}

}  // namespace

absl::StatusOr<std::vector<NetworkInterface>> ListInterfaces() {
  const absl::StatusOr<Addresses> addresses = ReadAddresses();
  if (!addresses.ok()) return addresses.status();
  std::map<std::string, NetworkInterface> by_name;
  for (const ifaddrs* entry = addresses->get(); entry != nullptr; entry = entry->ifa_next) {
    NetworkInterface& found = by_name[entry->ifa_name];
    found.name = entry->ifa_name;
    found.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    found.up = (entry->ifa_flags & IFF_UP) != 0;
    found.running = found.up && (entry->ifa_flags & IFF_RUNNING) != 0;
    found.multicast = (entry->ifa_flags & IFF_MULTICAST) != 0;
    found.point_to_point = (entry->ifa_flags & IFF_POINTOPOINT) != 0;
    if (entry->ifa_addr == nullptr) continue;
    std::string scope;
    const std::string text = TextOf(entry->ifa_addr, &scope);
    if (text.empty()) continue;
    found.addresses.push_back(scope.empty() ? text : absl::StrCat(text, "%", scope));
  }
  std::vector<NetworkInterface> all;
  for (auto& [name, found] : by_name) {
    found.running = found.running && HasCarrier(name);
    found.index = ::if_nametoindex(name.c_str());
    found.bridge_member = IsBridgeMember(name);
    std::ranges::sort(found.addresses);
    all.push_back(std::move(found));
  }
  return all;
}

std::optional<std::array<std::uint8_t, 16>> LinkLocalAddressOf(const NetworkInterface& interface) {
  for (const std::string& text : interface.addresses) {
    std::array<std::uint8_t, 16> bytes{};
    if (::inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), bytes.data()) != 1) continue;
    if (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) return bytes;
  }
  return std::nullopt;
}

bool IsDirectCable(const std::string& interface_name) {
  return IsLoopback(interface_name) || IsThunderboltNetwork(interface_name);
}

absl::StatusOr<std::string> InterfaceOf(const sockaddr* local) {
  std::string scope;
  const std::string wanted = TextOf(local, &scope);
  if (!scope.empty()) return scope;
  const absl::StatusOr<Addresses> addresses = ReadAddresses();
  if (!addresses.ok()) return addresses.status();
  // All of 127.0.0.0/8 belongs to loopback, though only its first address is listed.
  const bool four_loopback = wanted.rfind("127.", 0) == 0;
  for (const ifaddrs* entry = addresses->get(); entry != nullptr; entry = entry->ifa_next) {
    if (four_loopback) return wanted;
    if (entry->ifa_addr == nullptr || wanted.empty()) continue;
    std::string ignored;
    if (TextOf(entry->ifa_addr, &ignored) != wanted) continue;
    return (entry->ifa_flags & IFF_LOOPBACK) != 0 ? wanted : std::string(entry->ifa_name);
  }
  return absl::NotFoundError(absl::StrCat("no network interface has the address ", wanted));
}

}  // namespace mlxcomm::platform

#include "daemon/platform/direct_cable.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "daemon/platform/interfaces.h"

namespace mlxcomm::platform {
namespace {

bool IsLoopbackAddress(const std::string& text) {
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

// Another address of a loopback interface, or its name.
bool IsLoopback(const std::string& text) {
  if (IsLoopbackAddress(text)) return true;
  const absl::StatusOr<std::vector<NetworkInterface>> all = ListInterfaces();
  if (!all.ok()) return false;
  return std::any_of(all->begin(), all->end(), [&](const NetworkInterface& one) {
    return one.loopback &&
           (one.name == text || std::count(one.addresses.begin(), one.addresses.end(), text) > 0);
  });
}

}  // namespace

bool IsDirectCable(const std::string& interface_name) {
  return IsLoopback(interface_name) || IsThunderboltNetwork(interface_name);
}

}  // namespace mlxcomm::platform

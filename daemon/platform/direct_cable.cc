#include "daemon/platform/direct_cable.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <asio/ip/address.hpp>

#include "daemon/platform/interfaces.h"

namespace mlxcomm::platform {
namespace {

// Also another address of a loopback interface, or its name.
bool IsLoopback(const std::string& text) {
  asio::error_code ignored;
  if (asio::ip::make_address(text, ignored).is_loopback()) return true;
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

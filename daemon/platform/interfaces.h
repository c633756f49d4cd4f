// The network interfaces of this machine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct sockaddr;  // NOLINT(readability-identifier-naming): the system's.

namespace mlxcomm::platform {

struct NetworkInterface {
  std::string name;
  bool loopback = false;
  bool up = false;  // Switched on.
  // Up and connected; false if the cable is unplugged at either end.
  bool running = false;
  std::uint32_t index = 0;
  bool multicast = false;
  bool point_to_point = false;
  bool bridge_member = false;
  std::vector<std::string> addresses;  // "10.0.0.1", "fe80::1%eth0"; sorted.

  friend bool operator==(const NetworkInterface&, const NetworkInterface&) = default;
};

// Sorted by name.
absl::StatusOr<std::vector<NetworkInterface>> ListInterfaces();

// Returns its first IPv6 link-local address.
std::optional<std::array<std::uint8_t, 16>> LinkLocalAddressOf(const NetworkInterface& interface);

// Implemented for each system.
bool IsBridgeMember(const std::string& interface);

// Returns true if data sent on this interface can only reach the machine at the other end of its
// cable, so that it need not be encrypted. Takes a name, or a loopback address as InterfaceOf
// returns it.
//
// True for Thunderbolt networking and loopback. False for Ethernet, where a switch looks like a
// cable, point-to-point interfaces, which may be tunnels, bridges and their members.
bool IsDirectCable(const std::string& interface_name);

// True for Thunderbolt networking that is not part of a bridge.
bool IsThunderboltNetwork(const std::string& interface_name);

// Returns the name of the interface with this local address of a socket; for loopback the address
// itself, which is more specific. The scope decides for link-local addresses. NOT_FOUND: no
// interface has it.
absl::StatusOr<std::string> InterfaceOf(const sockaddr* local);

}  // namespace mlxcomm::platform

// The network interfaces of this machine: their names, addresses, and whether they have a cable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct sockaddr;

namespace mlxcomm::platform {

struct NetworkInterface {
  std::string name;
  bool loopback = false;
  bool up = false;  // Switched on.
  // Up, and connected to something: a cable that is pulled at either end makes it false.
  bool running = false;
  std::uint32_t index = 0;
  bool multicast = false;
  bool point_to_point = false;
  bool bridge_member = false;          // Its frames go to a bridge.
  std::vector<std::string> addresses;  // "10.0.0.1", "fe80::1%eth0"; sorted.

  friend bool operator==(const NetworkInterface&, const NetworkInterface&) = default;
};

// In the order of their names.
absl::StatusOr<std::vector<NetworkInterface>> ListInterfaces();

// Its IPv6 link-local address; the first of several.
std::optional<std::array<std::uint8_t, 16>> LinkLocalAddressOf(const NetworkInterface& interface);

// By system: whether the interface is a member of a bridge.
bool IsBridgeMember(const std::string& interface);

// Whether data that goes out on this interface can reach only the machine at the other end of its
// cable, so that it need not be encrypted. By name; a loopback interface also by its address, as
// InterfaceOf returns it. False where the system does not say.
//
// Yes for Thunderbolt networking, and for loopback, which never leaves the machine. No for
// everything else: from this machine an Ethernet cable to one other machine and one to a switch
// look alike, and a point-to-point interface may be a tunnel through any network. No for a bridge,
// such as macOS's bridge0 over its Thunderbolt ports, because it forwards to its other members; and
// for a Thunderbolt port that is a member of one, whose addresses are the bridge's.
bool IsDirectCable(const std::string& interface_name);

// By system: this interface is Thunderbolt networking, and no part of a bridge.
bool IsThunderboltNetwork(const std::string& interface_name);

// The name of the interface that has this local address of a socket; on a loopback interface the
// address itself, which says more there. For link-local addresses, which several interfaces may
// share, the scope decides. NOT_FOUND: no interface has it.
absl::StatusOr<std::string> InterfaceOf(const sockaddr* local);

}  // namespace mlxcomm::platform

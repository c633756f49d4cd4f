// Whether data that goes out on an interface can reach only the machine at the other end of its
// cable, so that it need not be encrypted.
//
// Yes for Thunderbolt networking (macOS: the interface is below an AppleThunderboltIP service in
// the device registry; Linux: its driver is thunderbolt-net), and for loopback, which never leaves
// the machine. No for everything else: from this machine an Ethernet cable to one other machine and
// one to a switch look alike, and a point-to-point interface may be a tunnel through any network.
// No for a bridge, such as macOS's bridge0 over its Thunderbolt ports, because it forwards to its
// other members; and for a Thunderbolt port that is a member of one, whose addresses are the
// bridge's.
//
// Thread: any.
#pragma once

#include <string>

namespace mlxcomm::platform {

// By name; a loopback interface also by its address, as InterfaceOf returns it. False where the
// system does not say.
bool IsDirectCable(const std::string& interface_name);

// By system: this interface is Thunderbolt networking, and no part of a bridge.
bool IsThunderboltNetwork(const std::string& interface_name);

}  // namespace mlxcomm::platform

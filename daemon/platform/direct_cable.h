// Whether what goes out on an interface can reach nobody but the machine at the other end
// of its cable, so that it need not be encrypted.
//
// Yes for Thunderbolt networking (macOS: the interface hangs below an AppleThunderboltIP
// service in the registry of devices; Linux: its driver is thunderbolt-net), and for
// loopback, which leaves the machine not at all. No for everything else: from this machine an
// Ethernet cable to one other machine and one to a switch look alike, and what is called
// point-to-point may be a tunnel through any network. No for a bridge, too, such as macOS's
// bridge0 over its Thunderbolt ports, for it passes on to whatever else is in it; and for a
// Thunderbolt port that is a member of one, whose addresses are the bridge's.
//
// Owner: functions. Thread: any. Memory: none.
#pragma once

#include <string>

namespace mlxcomm::platform {

// By name; of a loopback interface also by its address, as InterfaceOf has it. False where
// the system does not say.
bool IsDirectCable(const std::string& interface_name);

// The system's half: this interface is Thunderbolt networking, and no part of a bridge.
bool IsThunderboltNetwork(const std::string& interface_name);

}  // namespace mlxcomm::platform

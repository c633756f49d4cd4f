// Chooses the interfaces of the machine on which discovery looks for neighbours.
#pragma once

#include <string>
#include <vector>

#include "daemon/platform/interfaces.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::discovery {

// The reason why discovery does not use an interface, or a fault on one that it uses.
struct InterfaceFault {
  v1::DiscoveryReason::Value reason = v1::DiscoveryReason::none;
  std::string text;
  bool IsNone() const { return reason == v1::DiscoveryReason::none; }
};

// `patterns` (fnmatch) are the allowed names; if empty, all names are allowed except those of
// tunnels and the like.
InterfaceFault WhyNotUsed(const platform::NetworkInterface& interface,
                          const std::vector<std::string>& patterns);

}  // namespace mlxcomm::discovery

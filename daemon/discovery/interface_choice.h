// Chooses the interfaces of the machine on which discovery looks for neighbours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/platform/interfaces.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::discovery {

// `*` stands for any characters, `?` for one.
bool MatchesPattern(std::string_view name, std::string_view pattern);

// What keeps an interface from being one of them, or does not work on one that is: for programs and
// for people.
struct InterfaceFault {
  v1::DiscoveryReason::Value reason = v1::DiscoveryReason::none;
  std::string text;
  bool IsNone() const { return reason == v1::DiscoveryReason::none; }
};

// `patterns`: those that are allowed; none: all but those that lead to no neighbour's cable.
InterfaceFault WhyNotUsed(const platform::NetworkInterface& interface,
                          const std::vector<std::string>& patterns);

}  // namespace mlxcomm::discovery

// On which of the machine's interfaces neighbours are looked for.
//
// Owner: functions. Thread: any. Memory: none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/platform/interfaces.h"

namespace mlxcomm::cluster {

// `*` stands for any characters, `?` for one.
bool MatchesPattern(std::string_view name, std::string_view pattern);

// Why it is not one of them, for people; empty: it is. `patterns`: those that are allowed;
// none: all but those that lead to no neighbour's cable.
std::string WhyNotUsed(const platform::NetworkInterface& interface,
                       const std::vector<std::string>& patterns);

}  // namespace mlxcomm::cluster

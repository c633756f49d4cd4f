#include "client/ctl/launch/rank_placement.h"

#include <algorithm>

namespace mlxcomm::ctl {

bool IsThisMachine(const std::string& host, const std::string& own_name) {
  const auto first_label = [](const std::string& name) { return name.substr(0, name.find('.')); };
  if (host == "127.0.0.1" || host == "::1" || host == "localhost") return true;
  // Comparing first labels makes sense only where one name has no dots: not for 10.0.0.1.
  return host == own_name || (!own_name.empty() && host == first_label(own_name));
}

std::vector<PlacedRanks> PlaceRanks(const std::vector<HostEntry>& hosts, unsigned per_host,
                                    const std::string& own_name) {
  std::vector<PlacedRanks> placed;
  unsigned next = 0;
  for (const HostEntry& host : hosts) {
    const bool local = IsThisMachine(host.name, own_name);
    const unsigned count = per_host != 0 && host.slots != 0 ? per_host : host.slots;
    if (count == 0) continue;
    auto found = std::find_if(placed.begin(), placed.end(), [&](const PlacedRanks& one) {
      return local ? one.local : one.host == host.name;
    });
    if (found == placed.end()) found = placed.insert(placed.end(), {host.name, local, {}});
    for (unsigned i = 0; i < count; ++i) found->ranks.push_back(next++);
  }
  return placed;
}

}  // namespace mlxcomm::ctl

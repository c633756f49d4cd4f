// Finds the cause of a link, or one of its cables, being down: from the link's own reason, and from other
// reports, for example that an interface at one end is switched off.
#pragma once

#include <optional>
#include <string>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

struct LinkFault {
  std::string id;  // Its row of the finding table.
  Findings::Values values;
};
LinkFault FaultOf(const Facts& facts, const v1::NodeStatus& node, const v1::LinkStatus& link);

// The node's own report of the interface; nullptr: none.
const v1::InterfaceCheckup* InterfaceOf(const ClusterFacts& cluster, const std::string& node,
                                        const std::string& interface);

struct OffInterface {
  std::string node;
  std::string name;

  friend bool operator==(const OffInterface&, const OffInterface&) = default;
};
std::optional<OffInterface> SwitchedOffUnder(const ClusterFacts& cluster,
                                             const v1::NodeStatus& node, const v1::LinkStatus& link,
                                             const v1::RailStatus& rail);

// Returns whether it is recent enough to report: older one-off events are not faults.
bool IsRecent(const Facts& facts, std::uint64_t ms_ago);
// Hellos and connections without the key repeat while another machine has a different key.
inline constexpr std::uint64_t kStillComingMs = 60'000;
bool IsStillComing(const Facts& facts, std::uint64_t ms_ago);
bool HearsForeignHellos(const Facts& facts, const v1::NodeStatus& node);

}  // namespace mlxcomm::ctl

// Turns facts into findings. Pure functions: a test of a finding needs only its facts.
#pragma once

#include <optional>
#include <string>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

Findings Check(const Facts& facts);

void CheckDaemon(const Facts& facts, Findings& findings);
void CheckNetwork(const Facts& facts, Findings& findings);
void CheckCables(const Facts& facts, Findings& findings);
void CheckSystem(const Facts& facts, Findings& findings);
void CheckPython(const Facts& facts, Findings& findings);
void CheckDiscovery(const Facts& facts, Findings& findings);
void CheckLinks(const Facts& facts, Findings& findings);
void CheckNodes(const Facts& facts, Findings& findings);

// A node's part of the reports; empty if its daemon does not answer.
const v1::NodeCheckup& CheckupOf(const ClusterFacts& cluster, const std::string& node);
const v1::NodeCheckup& OwnCheckup(const ClusterFacts& cluster);
const v1::NodeStatus& OwnStatus(const ClusterFacts& cluster);
inline constexpr char kLocalNetworkRemedy[] =
    "macOS 15 and later block the local network until you allow it: in System Settings, Privacy & "
    "Security, Local Network, allow the program in whose window mlxcommd was started (tmux, iTerm, "
    "VS Code), or run mlxcommd as the service (mlxcommctl service install), which is always "
    "allowed";
// Returns whether a rail of this node uses the interface, used it last, or is being dialed over it.
bool CarriesRail(const ClusterFacts& cluster, const std::string& interface);

// Why a link is down, from its own reason and from other reports: an interface may be switched off.
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

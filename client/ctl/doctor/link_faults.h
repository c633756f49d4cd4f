// What a link that is not up, or one of its cables, suffers from: the row of the table of findings,
// with its values. It goes by the link's own words, and by what other reports know beside: that an
// interface at one end is switched off, or that somebody with another key knocks.
#pragma once

#include <optional>
#include <string>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

struct LinkFault {
  std::string id;  // Of its row.
  Findings::Values values;
};
LinkFault FaultOf(const Facts& facts, const v1::NodeStatus& node, const v1::LinkStatus& link);

// The node's own report of it, or nullptr if it has none.
const v1::InterfaceCheckup* InterfaceOf(const ClusterFacts& cluster, const std::string& node,
                                        const std::string& interface);

// An interface that somebody has switched off.
struct OffInterface {
  std::string node;
  std::string name;

  friend bool operator==(const OffInterface&, const OffInterface&) = default;
};
std::optional<OffInterface> SwitchedOffUnder(const ClusterFacts& cluster,
                                             const v1::NodeStatus& node, const v1::LinkStatus& link,
                                             const v1::RailStatus& rail);

// So long ago at most that it still counts: what happened once and is over is no fault.
bool IsRecent(const Facts& facts, std::uint64_t ms_ago);
// Of hellos and connections that come without the key for as long as somebody has another one.
inline constexpr std::uint64_t kStillComingMs = 60'000;
bool IsStillComing(const Facts& facts, std::uint64_t ms_ago);
bool HearsForeignHellos(const Facts& facts, const v1::NodeStatus& node);

}  // namespace mlxcomm::ctl

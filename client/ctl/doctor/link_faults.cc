#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/status/health.h"

namespace mlxcomm::ctl {
namespace {

// Returns whether the peer has a link-local address, "[fe80::2%en2]:7470", and so is on the cable
// itself.
bool IsOnTheCable(const v1::LinkStatus& link) {
  const auto is_link_local = [](const std::string& address) {
    return address.starts_with("[fe80:");
  };
  return is_link_local(link.peer()) ||
         std::ranges::any_of(link.rails(), [&](const v1::RailStatus& rail) {
           return is_link_local(rail.remote_address());
         });
}

bool IsSwitchedOff(const ClusterFacts& cluster, const std::string& node,
                   const std::string& interface) {
  const v1::InterfaceCheckup* const found = InterfaceOf(cluster, node, interface);
  return found != nullptr && found->has_up() && !found->up();
}

bool HasNoCarrier(const ClusterFacts& cluster, const v1::NodeStatus& node,
                  const v1::LinkStatus& link) {
  const v1::InterfaceCheckup* const own =
      InterfaceOf(cluster, node.name(), link.last_local_interface());
  return own != nullptr && !own->running();
}

std::optional<OffInterface> SwitchedOffAt(const ClusterFacts& cluster, const std::string& node,
                                          const std::string& local, const std::string& peer,
                                          const std::string& remote) {
  if (IsSwitchedOff(cluster, node, local)) return OffInterface{node, local};
  if (IsSwitchedOff(cluster, peer, remote)) return OffInterface{peer, remote};
  return std::nullopt;
}

// Checks the connection that ended last, and those that are being made.
std::optional<OffInterface> SwitchedOffUnder(const ClusterFacts& cluster,
                                             const v1::NodeStatus& node,
                                             const v1::LinkStatus& link) {
  auto off = SwitchedOffAt(cluster, node.name(), link.last_local_interface(), link.peer(),
                           link.last_remote_interface());
  for (const v1::RailStatus& rail : link.rails()) {
    if (!off.has_value()) off = SwitchedOffUnder(cluster, node, link, rail);
  }
  return off;
}

bool HasAnotherLink(const v1::NodeStatus& node, const v1::LinkStatus& link) {
  return std::ranges::any_of(node.links(), [&](const v1::LinkStatus& other) {
    return &other != &link && other.state() == v1::LinkState::up;
  });
}

// Describes hellos or connections with another key that arrive where the peer was; empty: none.
std::string WhoKnocks(const v1::NodeStatus& node, const v1::LinkStatus& link) {
  for (const v1::DiscoveredNeighbour& known : node.discovery().neighbours()) {
    if (known.id() != link.peer_id() || known.state() == "heard") continue;
    for (const v1::DiscoveryInterface& interface : node.discovery().interfaces()) {
      if (interface.name() == known.local_interface() && interface.has_foreign_ms_ago() &&
          interface.foreign_ms_ago() < kStillComingMs) {
        return absl::StrCat("hellos with another key or cluster arrive on ", interface.name(),
                            ", where it was");
      }
    }
  }
  if (node.has_stranger_refused_ms_ago() && node.stranger_refused_ms_ago() < kStillComingMs)
    return "connections without this cluster's key arrive";
  return {};
}

}  // namespace

const v1::InterfaceCheckup* InterfaceOf(const ClusterFacts& cluster, const std::string& node,
                                        const std::string& interface) {
  const v1::NodeCheckup& checkup = CheckupOf(cluster, node);
  if (interface.empty() || !checkup.answered()) return nullptr;
  for (const v1::InterfaceCheckup& found : checkup.interfaces()) {
    if (found.name() == interface) return &found;
  }
  return nullptr;
}

std::optional<OffInterface> SwitchedOffUnder(const ClusterFacts& cluster,
                                             const v1::NodeStatus& node, const v1::LinkStatus& link,
                                             const v1::RailStatus& rail) {
  return SwitchedOffAt(cluster, node.name(), rail.local_interface(), link.peer(),
                       rail.remote_interface());
}

// Reasons that a missing carrier can explain; the others come from a machine that answered.
bool MayBeOfCarrier(v1::LinkReason::Value reason) {
  switch (reason) {
    case v1::LinkReason::none:
    case v1::LinkReason::no_answer:
    case v1::LinkReason::cut:
    case v1::LinkReason::reset:
    case v1::LinkReason::silent:
    case v1::LinkReason::interface_down: return true;
    default: return false;
  }
}

LinkFault FaultOf(const Facts& facts, const v1::NodeStatus& node, const v1::LinkStatus& link) {
  const LinkCause cause = CauseOf(link);
  LinkFault fault;
  fault.values = {{"detail", cause.detail.empty() ? "not up" : cause.detail},
                  {"local_network", kLocalNetworkRemedy},
                  {"node", node.name()},
                  {"peer", link.peer()}};
  if (const auto off = SwitchedOffUnder(facts.cluster, node, link); off.has_value()) {
    fault.id = "MC502/off";
    fault.values = {{"interface", off->name}, {"node", off->node}};
    return fault;
  }
  if (MayBeOfCarrier(cause.reason) && HasNoCarrier(facts.cluster, node, link)) {
    fault.id = cause.reason == v1::LinkReason::interface_down ? "MC502/interface" : "MC502/carrier";
    fault.values.emplace_back("interface", link.last_local_interface());
    return fault;
  }
  const std::string_view id = IdOf(cause.reason, GeneralFindingKinds());
  fault.id = id.empty() ? "MC502" : id;
  if (cause.reason == v1::LinkReason::no_route_to_host && !IsOnTheCable(link)) {
    fault.id = "MC205/routed";
  } else if (IsOfAnotherKey(cause.reason)) {
    fault.id = HasAnotherLink(node, link) ? "MC209" : "MC209/alone";
  } else if (fault.id == "MC502" && link.large_lost()) {
    fault.id = "MC515/down";  // Whatever ended it.
  } else if (fault.id == "MC502" && link.state() != v1::LinkState::connecting) {
    const std::string who = WhoKnocks(node, link);
    if (who.empty()) return fault;
    fault.id = "MC502/knocks";
    fault.values.emplace_back("who", who);
  }
  return fault;
}

bool IsRecent(const Facts& facts, std::uint64_t ms_ago) { return ms_ago < facts.recent_ms; }

bool IsStillComing(const Facts& facts, std::uint64_t ms_ago) {
  return ms_ago < std::min(kStillComingMs, facts.recent_ms);
}

bool HearsForeignHellos(const Facts& facts, const v1::NodeStatus& node) {
  return std::ranges::any_of(node.discovery().interfaces(), [&](const v1::DiscoveryInterface& one) {
    return one.has_foreign_ms_ago() && IsStillComing(facts, one.foreign_ms_ago());
  });
}

}  // namespace mlxcomm::ctl

// The long form of a status.
#include <algorithm>
#include <utility>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/status/render_status.h"
#include "client/ctl/status/status_parts.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

void RenderRail(const v1::RailStatus& rail, const Painter& paint, std::string& out) {
  if (rail.state() != v1::RailState::up) return RenderDownRail(rail, "      ", paint, out);
  out += "      " + EndsOf(rail, paint);
  if (!rail.service().empty()) out += "  " + Shown(rail.service());
  if (!rail.security().empty())
    out += rail.security() == "tls" ? "  TLS" : "  " + Shown(rail.security());
  out += "  out " + HumanRate(rail.sent_bytes_per_second()) + ", in " +
         HumanRate(rail.received_bytes_per_second());
  if (rail.delivery_bytes_per_second() > 0) {
    out += ", has carried " + HumanRate(rail.delivery_bytes_per_second()) + ", at best " +
           HumanRate(rail.delivery_bytes_per_second_best());
  }
  if (rail.round_trip_ns() > 0) {
    out += ", round trip " + HumanNanoseconds(rail.round_trip_ns());
  }
  out += ", " + HumanBytes(static_cast<double>(rail.sent_bytes())) + " sent, " +
         HumanBytes(static_cast<double>(rail.received_bytes())) + " received";
  if (rail.arena_regions_max() > 0) {
    out += ", " + HumanBytes(static_cast<double>(rail.direct_bytes())) + " sent without a copy, " +
           std::to_string(rail.arena_regions()) + " of " +
           Plural(rail.arena_regions_max(), "region");
  }
  // The daemon resends messages that unreliable rails lose.
  if (rail.lost_messages() > 0) {
    out += ", " + Plural(rail.lost_messages(), "message") + " lost and resent";
  }
  out += "\n";
}

void RenderUse(const v1::UseStatus& use, std::string& out) {
  out += "    user " + Shown(use.user()) + "  " + std::to_string(use.clients()) + " of " +
         Plural(use.clients_max(), "client") + ", " +
         HumanBytes(static_cast<double>(use.arena_bytes())) + " of " +
         HumanBytes(static_cast<double>(use.arena_bytes_max())) + " for arenas, " +
         std::to_string(use.operations()) + " of " + Plural(use.operations_max(), "operation") +
         " in flight, " + std::to_string(use.groups()) + " of " +
         Plural(use.groups_max(), "group") + "\n";
}

// Not worth a line on machines with dozens of interfaces.
bool IsUnusedByDefault(const v1::DiscoveryInterface& interface) {
  return interface.reason() == v1::DiscoveryReason::loopback ||
         interface.reason() == v1::DiscoveryReason::unless_named;
}

// The interfaces used for discovery, and neighbours that are heard but not linked.
void RenderDiscovery(const v1::NodeStatus& node, std::string& out) {
  if (!node.has_discovery()) return;
  const v1::DiscoveryStatus& discovery = node.discovery();
  std::string used;
  std::vector<std::pair<std::string, std::string>> unused;  // Reason and interfaces.
  for (const v1::DiscoveryInterface& interface : discovery.interfaces()) {
    const std::string name = Shown(interface.name());
    if (interface.used()) {
      used += (used.empty() ? "" : ", ") + name;
      if (!interface.detail().empty()) used += " (" + Shown(interface.detail()) + ")";
    } else if (!IsUnusedByDefault(interface)) {
      const auto same =
          std::ranges::find(unused, interface.detail(), [](const auto& one) { return one.first; });
      if (same == unused.end()) {
        unused.emplace_back(interface.detail(), name);
      } else {
        same->second += ", " + name;
      }
    }
  }
  out += used.empty() ? "    looks for neighbours on no interface"
                      : "    looks for neighbours on " + used;
  for (const auto& [why, names] : unused) out += "; not on " + names + " (" + Shown(why) + ")";
  if (discovery.foreign() > 0) {
    out += "; has heard " + Plural(discovery.foreign(), "hello") + " of other clusters or keys";
  }
  out += "\n";
  RenderBridged(discovery, "    ", out);
  RenderUnlinked(node, "      ", out);
}

void RenderNode(const v1::NodeStatus& node, bool own, const Painter& paint, std::string& out) {
  out += "  " + paint.Bold(node.name()) + "  " + paint.State(StateOf(node));
  if (!node.answered()) {
    out += "  (did not answer in time)\n";
    return;
  }
  out += "  mlxcommd " + Shown(node.version()) + ", pid " + std::to_string(node.pid()) + ", up " +
         HumanTime(node.uptime_ms()) + ", " + Plural(node.clients(), "client") + ", " +
         HumanBytes(static_cast<double>(node.memory_bytes())) + (own ? "  (this node)" : "") + "\n";
  for (const v1::UseStatus& use : node.users()) RenderUse(use, out);
  RenderDiscovery(node, out);
  RenderDevices(node, /*slow_only=*/false, "    ", out);
  for (const v1::LinkStatus& link : node.links()) {
    out += "    to " + Shown(link.peer()) + "  " + paint.State(WordOf(link.state()));
    if (!link.detail().empty()) out += "  " + Shown(link.detail());
    out += "\n";
    RenderLinkFaults(link, "      ", paint, out);
    for (const v1::RailStatus& rail : link.rails()) RenderRail(rail, paint, out);
  }
}

template <typename Group>
void RenderRanks(const Group& group, const std::string& indent, std::string& out) {
  for (const v1::RankStatus& rank : group.ranks()) {
    out += indent + "rank " + std::to_string(rank.rank()) + "  " + Shown(rank.node()) + ", pid " +
           std::to_string(rank.pid());
    if (!rank.program().empty()) out += " (" + Shown(rank.program()) + ")";
    out += "  " + Plural(rank.operations_done(), "operation") + " done";
    if (rank.operations_met() > 0) {
      out += ", " + std::to_string(rank.operations_met()) + " of them between the ranks directly";
    }
    if (rank.stopped()) out += ", stopped";
    if (!rank.operation().empty()) {
      out += ", in " + Shown(rank.operation()) + " for " + HumanTime(rank.operation_age_ms());
    }
    out += "\n";
  }
  RenderWaits(group.waits(), indent, out);
}

void RenderJob(const v1::JobStatus& job, const Painter& paint, std::string& out) {
  out += "  " + JobLine(job, /*count_ranks=*/true, paint);
  RenderRanks(job, "    ", out);
  RenderCopies(job, "    ", out);
  for (const v1::GroupStatus& group : job.groups()) {
    out += "    group " + paint.Bold(Shown(group.name())) + "  " +
           paint.State(Shown(group.state())) + "  " + Plural(group.size(), "rank");
    if (!group.detail().empty()) out += "  " + Shown(group.detail());
    out += "\n";
    RenderRanks(group, "      ", out);
  }
  if (job.groups_left_out() > 0) {
    out += "    and " + Plural(job.groups_left_out(), "group") + " more\n";
  }
}

}  // namespace

std::string RenderStatusDetails(const v1::StatusReply& status, bool colours) {
  const Painter paint(colours);
  std::string out = "cluster " + paint.Bold(status.cluster()) + ", " +
                    Plural(static_cast<std::uint64_t>(status.nodes_size()), "node") + "\n";
  for (const v1::NodeStatus& node : status.nodes()) {
    RenderNode(node, node.name() == status.node(), paint, out);
  }
  out += status.jobs_size() == 0 && status.jobs_of_others() == 0 ? "no jobs\n" : "jobs\n";
  for (const v1::JobStatus& job : status.jobs()) RenderJob(job, paint, out);
  RenderFailedJobs(status, "  ", paint, out);
  if (status.jobs_of_others() > 0) {
    out += "  " + Plural(status.jobs_of_others(), "job") + " of other users\n";
  }
  return out + HealthLine(status, paint);
}

}  // namespace mlxcomm::ctl

// Findings about nodes and what joins them, by what all daemons have told.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/status/render_status.h"
#include "client/ctl/topology/render_topology.h"

namespace mlxcomm::ctl {
namespace {

// Why a neighbour cannot be connected to, by what its dialer was told.
Finding DialFinding(const Facts& facts, const std::string& object, const std::string& peer,
                    const std::string& detail) {
  using absl::StrContains;
  const std::string up = "a link that is up";
  if (StrContains(detail, "No route to host")) {
    // A link-local address is on the cable itself: it needs no route, so the system refuses.
    const bool on_the_cable = StrContains(peer, "fe80:") || StrContains(detail, "fe80:");
    return {"MC205",
            object,
            detail,
            up,
            on_the_cable
                ? absl::StrCat(LocalNetworkRemedy(facts), "; else is the cable in?")
                : absl::StrCat("is the cable in, and an address of that network on its interface? ",
                               "Else ", LocalNetworkRemedy(facts)),
            {}};
  }
  if (StrContains(detail, "this is this node itself")) {
    return {
        "MC302",
        object,
        "it leads to this node itself",
        "another node at the other end",
        "plug one end of the cable into a neighbour, or take this address out of peers { connect }",
        {}};
  }
  if (StrContains(detail, "no such host")) {
    return {"MC208",
            object,
            detail,
            up,
            "is the name right? IPv6 link-local addresses need the interface: [fe80::1%en2]:7470",
            {}};
  }
  if (StrContains(detail, "key") || StrContains(detail, "cluster")) {
    return {
        "MC209",
        object,
        detail,
        "the same cluster's name and key on all nodes",
        "compare cluster in both configurations; give the wrong one the other's key: mlxcommctl "
        "cluster key show there, mlxcommctl cluster key rotate --take here",
        {}};
  }
  if (StrContains(detail, "refuse")) {
    return {"MC206",
            object,
            detail,
            up,
            "is mlxcommd running there, and does it listen on this address and port?",
            {}};
  }
  if (StrContains(detail, "no answer")) {
    return {"MC207",
            object,
            detail,
            up,
            "is the cable in, the node awake, and does a firewall let TCP through to it?",
            {}};
  }
  if (StrContains(detail, " is down; waiting")) {
    return {"MC502", object, detail, up, "is the cable in, at both ends, and the interface up?",
            {}};
  }
  return {"MC502",
          object,
          detail.empty() ? "not up" : detail,
          up,
          "is mlxcommd running there, and the cable in?",
          {}};
}

std::string RailName(const v1::RailStatus& rail) {
  const std::string from =
      rail.local_interface().empty() ? rail.local_address() : rail.local_interface();
  const std::string to =
      rail.remote_interface().empty() ? rail.remote_address() : rail.remote_interface();
  return from + " - " + to;
}

const v1::NodeCheckup* CheckupOf(const ClusterFacts& cluster, const std::string& node) {
  for (const v1::NodeCheckup& checkup : cluster.checkups.nodes()) {
    if (checkup.name() == node && checkup.answered()) return &checkup;
  }
  return nullptr;
}

std::uint32_t MtuOf(const ClusterFacts& cluster, const std::string& node,
                    const std::string& interface) {
  const v1::NodeCheckup* const checkup = CheckupOf(cluster, node);
  if (checkup == nullptr || interface.empty()) return 0;
  for (const v1::InterfaceCheckup& found : checkup->interfaces()) {
    if (found.name() == interface) return found.mtu();
  }
  return 0;
}

// Connections are told cable by cable; a queue pair lies on the cable of the one beside it.
bool IsConnection(const v1::RailStatus& rail) {
  return rail.transport() != "route" && rail.transport() != "rdma";
}

// Which of a cable's rails is to show what it carries: the other is hardly ever busy.
bool ShowsSpeed(const v1::LinkStatus& link, const v1::RailStatus& rail) {
  if (rail.transport() == "route" || rail.state() != "up") return false;
  const bool with_rdma =
      std::any_of(link.rails().begin(), link.rails().end(), [&rail](const v1::RailStatus& other) {
        return other.transport() == "rdma" && other.state() == "up" &&
               other.local_interface() == rail.local_interface() &&
               other.remote_interface() == rail.remote_interface();
      });
  return (rail.transport() == "rdma") == with_rdma;
}

bool IsRouted(const v1::LinkStatus& link) {
  return std::any_of(link.rails().begin(), link.rails().end(),
                     [](const v1::RailStatus& rail) { return rail.transport() == "route"; });
}

// It went over other nodes, of which one has lost a link of its own: that is told.
bool IsConsequence(const v1::LinkStatus& link) {
  return absl::StrContains(link.detail(), "the way through ") &&
         absl::StrContains(link.detail(), "lost its link to");
}

bool AnyLinkIsDown(const ClusterFacts& cluster) {
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      if (link.state() != "up") return true;
    }
  }
  return false;
}

// The same cable is told by both of its ends: once is enough.
class Cables {
 public:
  bool IsNew(const std::string& node, const v1::LinkStatus& link, const v1::RailStatus& rail) {
    const std::pair<std::string, std::string> one{node, rail.local_interface()};
    const std::pair<std::string, std::string> other{link.peer(), rail.remote_interface()};
    return told_.insert(std::minmax(one, other)).second;
  }

 private:
  using End = std::pair<std::string, std::string>;
  std::set<std::pair<End, End>> told_;
};

void CheckMtu(const ClusterFacts& cluster, const v1::NodeStatus& node, const v1::LinkStatus& link,
              const v1::RailStatus& rail, Findings& findings) {
  const std::uint32_t own = MtuOf(cluster, node.name(), rail.local_interface());
  const std::uint32_t theirs = MtuOf(cluster, link.peer(), rail.remote_interface());
  if (own == 0 || theirs == 0 || own == theirs) return;
  const std::uint32_t larger = std::max(own, theirs);
  const bool own_smaller = own < theirs;
  findings.Add({"MC505",
                absl::StrCat("cable ", node.name(), " ", RailName(rail), " ", link.peer()),
                absl::StrCat("MTU ", own, " and ", theirs),
                "the same at both ends",
                absl::StrCat("give both the same: on ", own_smaller ? node.name() : link.peer(),
                             ", ip link set dev ",
                             own_smaller ? rail.local_interface() : rail.remote_interface(),
                             " mtu ", larger, " (macOS: ifconfig IF mtu ", larger, ")"),
                {}});
}

// What the other end delivers over the same cable.
double BackwardsRate(const ClusterFacts& cluster, const std::string& node,
                     const v1::LinkStatus& link, const v1::RailStatus& rail) {
  for (const v1::NodeStatus& other : cluster.status.nodes()) {
    if (other.name() != link.peer()) continue;
    for (const v1::LinkStatus& back : other.links()) {
      if (back.peer() != node) continue;
      for (const v1::RailStatus& theirs : back.rails()) {
        if (theirs.transport() == rail.transport() &&
            theirs.local_interface() == rail.remote_interface() &&
            theirs.remote_interface() == rail.local_interface()) {
          return theirs.delivery_bytes_per_second_best();
        }
      }
    }
  }
  return 0;
}

void CheckSpeeds(const ClusterFacts& cluster, Findings& findings) {
  constexpr double kMuchSlower = 0.4;
  constexpr double kAsymmetric = 0.4;
  double best = 0;
  for (const v1::TopologyCable& cable : cluster.topology.cables()) {
    best = std::max(best, cable.bytes_per_second_best());
  }
  for (const v1::TopologyCable& cable : cluster.topology.cables()) {
    const double rate = cable.bytes_per_second_best();
    if (cable.state() != "up" || rate <= 0 || rate >= kMuchSlower * best) continue;
    findings.Add(
        {"MC506",
         absl::StrCat("cable ", NodeNameIn(cluster.topology, cable.from_node()), " ",
                      cable.from_interface(), " - ", cable.to_interface(), " ",
                      NodeNameIn(cluster.topology, cable.to_node())),
         absl::StrCat("has carried ", HumanRate(static_cast<std::uint64_t>(rate)), " at best"),
         absl::StrCat("about ", HumanRate(static_cast<std::uint64_t>(best)),
                      ", as the fastest has"),
         "a ring is as fast as its slowest cable: try another cable or port; if it was never "
         "busy, mlxcommctl bench measures it",
         {}});
  }
  Cables told;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (!ShowsSpeed(link, rail) || !told.IsNew(node.name(), link, rail)) continue;
        const double out = rail.delivery_bytes_per_second_best();
        const double back = BackwardsRate(cluster, node.name(), link, rail);
        if (out <= 0 || back <= 0 || std::min(out, back) >= kAsymmetric * std::max(out, back))
          continue;
        findings.Add(
            {"MC507",
             absl::StrCat("cable ", node.name(), " ", RailName(rail), " ", link.peer()),
             absl::StrCat(HumanRate(static_cast<std::uint64_t>(out)), " towards ", link.peer(),
                          ", ", HumanRate(static_cast<std::uint64_t>(back)), " back"),
             "about the same both ways",
             "try another cable; does another program use one of the two machines?",
             {}});
      }
    }
  }
}

// Enough cables for a ring, but two of them side by side.
void CheckPairing(const v1::TopologyReply& topology, Findings& findings) {
  if (topology.ring_closed() || topology.ring_size() < 3) return;
  std::map<std::pair<std::string, std::string>, int> count;
  for (const v1::TopologyCable& cable : topology.cables()) {
    if (cable.state() == "up" && cable.switch_number() == 0) {
      ++count[std::minmax(cable.from_node(), cable.to_node())];
    }
  }
  for (const auto& [pair, cables] : count) {
    if (cables < 2) continue;
    const std::string first = NodeNameIn(topology, topology.ring(0));
    const std::string last = NodeNameIn(topology, topology.ring(topology.ring_size() - 1));
    findings.Add(
        {"MC303",
         "cables",
         absl::StrCat(cables, " cables between ", NodeNameIn(topology, pair.first), " and ",
                      NodeNameIn(topology, pair.second), ", none between ", last, " and ", first),
         "a closed ring",
         absl::StrCat("let one of them join ", last, " and ", first),
         {}});
    return;
  }
}

// While the key is being changed some nodes have the new one already.
void CheckKeys(const ClusterFacts& cluster, Findings& findings) {
  std::map<std::string, std::string> by_key;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    if (node.cluster_keys_size() == 0) continue;
    std::string& names = by_key[node.cluster_keys(0)];
    absl::StrAppend(&names, names.empty() ? "" : ", ", node.name());
  }
  if (by_key.size() < 2) return;
  std::string all;
  for (const auto& [key, names] : by_key) {
    absl::StrAppend(&all, all.empty() ? "" : "; ", "key ", key, " on ", names);
  }
  findings.Add(
      {"MC512",
       "cluster",
       all,
       "the same key on all nodes",
       "end the change of the key: mlxcommctl cluster key rotate --take on those that have "
       "the old one, then mlxcommctl cluster key rotate --finish on each",
       {}});
}

void CheckCheckups(const ClusterFacts& cluster, Findings& findings) {
  for (const v1::NodeCheckup& node : cluster.checkups.nodes()) {
    if (!node.answered()) continue;
    // Beyond what could be the way there and back.
    constexpr double kClockNsMax = 1e9;
    const double offset = std::abs(static_cast<double>(node.clock_offset_ns()));
    if (offset > kClockNsMax + static_cast<double>(node.clock_uncertainty_ns())) {
      findings.Add(
          {"MC504",
           absl::StrCat("node ", node.name()),
           absl::StrCat("its clock is ", HumanTime(static_cast<std::uint64_t>(offset / 1e6)),
                        node.clock_offset_ns() > 0 ? " ahead" : " behind"),
           "less than a second apart",
           "let the systems set their clocks",
           {}});
    }
    constexpr std::uint64_t kFilesMin = 1024;
    const std::uint64_t most = node.open_files_max();
    if (most > 0 && (most < kFilesMin || node.open_files() * 5 > most * 4)) {
      findings.Add({"MC402",
                    absl::StrCat("node ", node.name()),
                    absl::StrCat("mlxcommd has ", node.open_files(), " of ", most, " open files"),
                    absl::StrCat("room for ", kFilesMin, " or more"),
                    "raise it: LimitNOFILE in mlxcommd.service, SoftResourceLimits in the plist, "
                    "ulimit -n for a private one",
                    {}});
    }
  }
}

}  // namespace

void CheckLinks(const Facts& facts, Findings& findings) {
  const ClusterFacts& cluster = facts.cluster;
  Cables told;
  std::set<std::pair<std::string, std::string>> down;
  bool has_cause = false;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      has_cause = has_cause || (link.state() != "up" && !IsConsequence(link));
    }
  }
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      const std::string object = absl::StrCat("link ", node.name(), " to ", link.peer());
      if (link.state() != "up") {
        // Where all are consequences, the cause is on a node that does not answer.
        if (IsConsequence(link) && has_cause) continue;
        if (down.insert(std::minmax(node.name(), link.peer())).second) {
          findings.Add(DialFinding(facts, object, link.peer(), link.detail()));
        }
        continue;
      }
      for (const v1::RailStatus& rail : link.rails()) {
        if (!IsConnection(rail) || !told.IsNew(node.name(), link, rail)) continue;
        CheckMtu(cluster, node, link, rail, findings);
        if (rail.state() == "up") continue;
        const std::string cable =
            absl::StrCat("cable ", node.name(), " ", RailName(rail), " ", link.peer());
        findings.Add({"MC305",
                      cable,
                      rail.detail().empty() ? "down" : absl::StrCat("down: ", rail.detail()),
                      "up",
                      IsRouted(link)
                          ? "is it in, at both ends? The nodes reach each other through others"
                          : "is it in, at both ends? The link goes on without it, slower",
                      {}});
      }
    }
  }
  CheckSpeeds(cluster, findings);
  CheckPairing(cluster.topology, findings);
}

void CheckNodes(const Facts& facts, Findings& findings) {
  const ClusterFacts& cluster = facts.cluster;
  std::map<std::string, std::string> by_version;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    if (!node.version().empty()) {
      std::string& names = by_version[node.version()];
      absl::StrAppend(&names, names.empty() ? "" : ", ", node.name());
    }
    if (!node.answered()) {
      findings.Add({"MC501",
                    absl::StrCat("node ", node.name()),
                    "does not answer in time",
                    "an answer",
                    AnyLinkIsDown(cluster) ? "mend the link that is down; else look at its mlxcommd"
                                           : "look at its mlxcommd, and at what loads that machine",
                    {}});
    }
    if (node.strangers_refused() > 0) {
      findings.Add({"MC509",
                    absl::StrCat("node ", node.name()),
                    absl::StrCat(node.strangers_refused(), " connections without proof of the key"),
                    "none",
                    "mlxcommctl events there, or its log, says from where",
                    {}});
    }
  }
  for (const v1::TopologyNode& node : cluster.topology.nodes()) {
    if (node.state() != "lost") continue;
    findings.Add({"MC501",
                  absl::StrCat("node ", node.name()),
                  "lost",
                  "up",
                  "is the machine awake, and mlxcommd running?",
                  {}});
  }
  if (by_version.size() > 1) {
    std::string all;
    for (const auto& [version, names] : by_version) {
      absl::StrAppend(&all, all.empty() ? "" : "; ", version, " on ", names);
    }
    findings.Add({"MC503",
                  "cluster",
                  all,
                  "the same mlxcommd on all nodes",
                  "install the same version everywhere",
                  {}});
  }
  CheckKeys(cluster, findings);
  CheckCheckups(cluster, findings);
  if (cluster.topology.shape() == "line" && cluster.topology.ring_size() > 2) {
    const int last = cluster.topology.ring_size() - 1;
    findings.Add(
        {"MC508",
         "cluster",
         absl::StrCat("a line of ", cluster.topology.ring_size(), " nodes"),
         "a closed ring",
         absl::StrCat("a cable between ", NodeNameIn(cluster.topology, cluster.topology.ring(last)),
                      " and ", NodeNameIn(cluster.topology, cluster.topology.ring(0)),
                      " would close it"),
         {}});
  }
  std::size_t ups = 0;
  for (const v1::NodeStatus& node : cluster.status.nodes()) ups += node.state() == "up";
  findings.Add({"MC511",
                "cluster",
                absl::StrCat(ups, ups == 1 ? " node is up, shape " : " nodes are up, shape ",
                             cluster.topology.shape()),
                "",
                "",
                {}});
  for (const v1::JobStatus& job : cluster.status.jobs()) {
    if (job.state() != "failed") continue;
    findings.Add({"MC510",
                  absl::StrCat("job ", job.name()),
                  job.detail(),
                  "a job that runs",
                  "mlxcommctl record tells of its last operations",
                  {}});
  }
}

}  // namespace mlxcomm::ctl

// Findings about nodes, links and jobs, from the reports of all daemons.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/status/health.h"
#include "client/ctl/topology/render_topology.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

std::string RailName(const v1::RailStatus& rail) {
  const std::string from =
      rail.local_interface().empty() ? rail.local_address() : rail.local_interface();
  const std::string to =
      rail.remote_interface().empty() ? rail.remote_address() : rail.remote_interface();
  return from + " - " + to;
}

// A rail with a cable of its own; a side rail shares the cable of the connection beside it.
bool IsConnection(const v1::RailStatus& rail) {
  return rail.transport() != v1::Transport::route && !IsBeside(rail.transport());
}

// Returns whether the rail's rate is the cable's: if two rails share a cable, one is hardly ever
// busy.
bool ShowsSpeed(const v1::LinkStatus& link, const v1::RailStatus& rail) {
  if (rail.transport() == v1::Transport::route || rail.state() != v1::RailState::up) return false;
  const bool with_side_rail =
      std::ranges::any_of(link.rails(), [&rail](const v1::RailStatus& other) {
        return IsBeside(other.transport()) && other.state() == v1::RailState::up &&
               other.local_interface() == rail.local_interface() &&
               other.remote_interface() == rail.remote_interface();
      });
  return IsBeside(rail.transport()) == with_side_rail;
}

bool AnyLink(const ClusterFacts& cluster, bool (*is)(const v1::LinkStatus&)) {
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    if (std::ranges::any_of(node.links(), is)) return true;
  }
  return false;
}

bool IsDown(const v1::LinkStatus& link) { return link.state() != v1::LinkState::up; }

// Includes a cable of a link that is up over others.
bool AnyCableIsDown(const ClusterFacts& cluster) {
  return AnyLink(cluster, [](const v1::LinkStatus& link) {
    return IsDown(link) || std::ranges::any_of(link.rails(), [](const v1::RailStatus& rail) {
             return IsConnection(rail) && rail.state() != v1::RailState::up;
           });
  });
}

using Pair = std::pair<std::string, std::string>;

// Both ends report a cable; only the first report counts.
class Cables {
 public:
  bool IsNew(const std::string& node, const v1::LinkStatus& link, const v1::RailStatus& rail) {
    const Pair one{node, rail.local_interface()};
    const Pair other{link.peer(), rail.remote_interface()};
    return reported_.insert(std::minmax(one, other)).second;
  }

 private:
  std::set<std::pair<Pair, Pair>> reported_;
};

void CheckMtu(const ClusterFacts& cluster, const v1::NodeStatus& node, const v1::LinkStatus& link,
              const v1::RailStatus& rail, Findings& findings) {
  const auto mtu_of = [&cluster](const std::string& of, const std::string& interface) {
    const v1::InterfaceCheckup* const found = InterfaceOf(cluster, of, interface);
    return found == nullptr ? 0 : found->mtu();
  };
  const std::uint32_t own = mtu_of(node.name(), rail.local_interface());
  const std::uint32_t theirs = mtu_of(link.peer(), rail.remote_interface());
  if (own == 0 || theirs == 0 || own == theirs) return;
  const bool own_smaller = own < theirs;
  findings.Add("MC505", absl::StrCat("cable ", node.name(), " ", RailName(rail), " ", link.peer()),
               {{"one", std::to_string(own)},
                {"other", std::to_string(theirs)},
                {"node", own_smaller ? node.name() : link.peer()},
                {"interface", own_smaller ? rail.local_interface() : rail.remote_interface()},
                {"larger", std::to_string(std::max(own, theirs))}});
}

// The other end's report of the same rail; nullptr: none.
const v1::RailStatus* BackwardsOf(const ClusterFacts& cluster, const std::string& node,
                                  const v1::LinkStatus& link, const v1::RailStatus& rail) {
  for (const v1::LinkStatus& back : NodeNamed(cluster.status, link.peer()).links()) {
    if (back.peer() != node) continue;
    for (const v1::RailStatus& theirs : back.rails()) {
      if (theirs.transport() == rail.transport() &&
          theirs.local_interface() == rail.remote_interface() &&
          theirs.remote_interface() == rail.local_interface()) {
        return &theirs;
      }
    }
  }
  return nullptr;
}

// A low best rate means a slow cable only if the cable was full for this many bytes.
bool WasFull(const v1::RailStatus& rail) {
  constexpr std::uint64_t kReportingBytes = 64ULL << 20;
  return rail.delivery_busy_bytes() >= kReportingBytes;
}

// The fastest cable between each two neighbours in the ring, or in the line if it is not closed. A
// slower cable beside it only adds to it.
std::map<Pair, const v1::TopologyCable*> RingCables(const v1::TopologyReply& topology) {
  std::set<Pair> neighbours;
  const int nodes = topology.ring_size();
  for (int i = 0; i < nodes; ++i) {
    if (i + 1 == nodes && !topology.ring_closed()) break;
    neighbours.insert(std::minmax(topology.ring(i), topology.ring((i + 1) % nodes)));
  }
  std::map<Pair, const v1::TopologyCable*> fastest;
  for (const v1::TopologyCable& cable : topology.cables()) {
    const Pair ends = std::minmax(cable.from_node(), cable.to_node());
    if (cable.state() != v1::RailState::up || !neighbours.contains(ends)) continue;
    const v1::TopologyCable*& so_far = fastest[ends];
    if (so_far == nullptr || so_far->bytes_per_second_best() < cable.bytes_per_second_best())
      so_far = &cable;
  }
  return fastest;
}

using Ends = Pair;  // The two ends of a cable, each "node interface".

std::string EndOf(const std::string& node, const std::string& interface) {
  return absl::StrCat(node, " ", interface);
}

// The best rate of each cable that was full, by its ends; if both directions were, of the slower
// one. A cable is as fast as the best of the rails that share it.
std::map<Ends, double> RatesOfFullCables(const ClusterFacts& cluster) {
  std::map<Ends, double> by_direction;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.state() != v1::RailState::up || !WasFull(rail)) continue;
        double& rate = by_direction[{EndOf(node.name(), rail.local_interface()),
                                     EndOf(link.peer(), rail.remote_interface())}];
        rate = std::max(rate, rail.delivery_bytes_per_second_best());
      }
    }
  }
  std::map<Ends, double> rates;
  for (const auto& [ends, rate] : by_direction) {
    const auto [slower, is_first] = rates.try_emplace(std::minmax(ends.first, ends.second), rate);
    if (!is_first) slower->second = std::min(slower->second, rate);
  }
  return rates;
}

void CheckSlowCables(const ClusterFacts& cluster, Findings& findings) {
  constexpr double kMuchSlower = 0.4;
  const v1::TopologyReply& topology = cluster.topology;
  const std::map<Pair, const v1::TopologyCable*> ring = RingCables(topology);
  const std::map<Ends, double> rates = RatesOfFullCables(cluster);
  double best = 0;
  for (const auto& [nodes, cable] : ring) best = std::max(best, cable->bytes_per_second_best());
  for (const auto& [nodes, cable] : ring) {
    const std::string from = NodeNameIn(topology, cable->from_node());
    const std::string to = NodeNameIn(topology, cable->to_node());
    const auto rate = rates.find(
        std::minmax(EndOf(from, cable->from_interface()), EndOf(to, cable->to_interface())));
    if (rate == rates.end() || rate->second >= kMuchSlower * best) continue;
    findings.Add("MC506",
                 absl::StrCat("cable ", from, " ", cable->from_interface(), " - ",
                              cable->to_interface(), " ", to),
                 {{"rate", HumanRate(rate->second)}, {"best", HumanRate(best)}});
  }
}

void CheckDirections(const ClusterFacts& cluster, Findings& findings) {
  constexpr double kAsymmetric = 0.4;
  Cables reported;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (!ShowsSpeed(link, rail) || !reported.IsNew(node.name(), link, rail)) continue;
        const v1::RailStatus* const backwards = BackwardsOf(cluster, node.name(), link, rail);
        if (backwards == nullptr) continue;
        const double out = rail.delivery_bytes_per_second_best();
        const double back = backwards->delivery_bytes_per_second_best();
        if (!WasFull(out < back ? rail : *backwards)) continue;
        if (std::min(out, back) >= kAsymmetric * std::max(out, back)) continue;
        findings.Add("MC507",
                     absl::StrCat("cable ", node.name(), " ", RailName(rail), " ", link.peer()),
                     {{"out", HumanRate(out)}, {"peer", link.peer()}, {"back", HumanRate(back)}});
      }
    }
  }
}

// Returns whether a ring needs one more cable, because no repair would close it.
bool LacksACable(const ClusterFacts& cluster) {
  const v1::TopologyReply& topology = cluster.topology;
  const auto& nodes = topology.nodes();
  return !topology.ring_closed() && topology.ring_size() > 2 && !AnyCableIsDown(cluster) &&
         std::ranges::find(nodes, "lost", &v1::TopologyNode::state) == nodes.end();
}

// Finds two parallel cables, one of which could close the ring.
void CheckPairing(const ClusterFacts& cluster, Findings& findings) {
  const v1::TopologyReply& topology = cluster.topology;
  if (!LacksACable(cluster)) return;
  std::map<Pair, int> count;
  for (const v1::TopologyCable& cable : topology.cables()) {
    if (cable.state() == v1::RailState::up && cable.switch_number() == 0) {
      ++count[std::minmax(cable.from_node(), cable.to_node())];
    }
  }
  for (const auto& [pair, cables] : count) {
    if (cables < 2) continue;
    findings.Add("MC303", "cables",
                 {{"cables", std::to_string(cables)},
                  {"one", NodeNameIn(topology, pair.first)},
                  {"other", NodeNameIn(topology, pair.second)},
                  {"first", NodeNameIn(topology, topology.ring(0))},
                  {"last", NodeNameIn(topology, topology.ring(topology.ring_size() - 1))}});
    return;
  }
}

// "1.0 on a, b; 1.1 on c"
std::string Grouped(const std::map<std::string, std::vector<std::string>>& names_by,
                    const char* what) {
  return absl::StrJoin(names_by, "; ", [what](std::string* all, const auto& one) {
    absl::StrAppend(all, what, one.first, " on ", absl::StrJoin(one.second, ", "));
  });
}

// Keys differ while a key rotation is in progress.
void CheckKeys(const ClusterFacts& cluster, Findings& findings) {
  std::map<std::string, std::vector<std::string>> by_key;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    if (node.cluster_keys_size() > 0) by_key[node.cluster_keys(0)].push_back(node.name());
  }
  if (by_key.size() < 2) return;
  findings.Add("MC512", "cluster", {{"keys", Grouped(by_key, "key ")}});
}

void CheckCheckups(const ClusterFacts& cluster, Findings& findings) {
  for (const v1::NodeCheckup& node : cluster.checkups.nodes()) {
    if (!node.answered()) continue;
    constexpr double kClockNsMax = 1e9;  // Longer than any round trip.
    const double offset = std::abs(static_cast<double>(node.clock_offset_ns()));
    if (offset > kClockNsMax + static_cast<double>(node.clock_uncertainty_ns())) {
      findings.Add("MC504", absl::StrCat("node ", node.name()),
                   {{"time", HumanTime(static_cast<std::uint64_t>(offset / 1e6))},
                    {"direction", node.clock_offset_ns() > 0 ? "ahead" : "behind"}});
    }
    constexpr std::uint64_t kFilesMin = 1024;
    const std::uint64_t most = node.open_files_max();
    if (most > 0 && (most < kFilesMin || node.open_files() * 5 > most * 4)) {
      findings.Add("MC402", absl::StrCat("node ", node.name()),
                   {{"open", std::to_string(node.open_files())},
                    {"most", std::to_string(most)},
                    {"least", std::to_string(kFilesMin)}});
    }
  }
}

void CheckFrames(const Facts& facts, const std::string& object, const v1::LinkStatus& link,
                 Findings& findings) {
  if (link.large_lost()) {
    const bool named = !link.large_lost_on().empty();
    findings.Add("MC515", object, {{"cable", named ? link.large_lost_on() : "the path"}});
  }
  if (link.has_same_id_ms_ago() && IsRecent(facts, link.same_id_ms_ago()))
    findings.Add("MC213/linked", object, {{"at", link.same_id_at()}, {"peer", link.peer()}});
  if (link.changed_frames() > 0 && IsRecent(facts, link.changed_ms_ago())) {
    findings.Add("MC514", object,
                 {{"times", Plural(link.changed_frames(), "time")},
                  {"ago", HumanTime(link.changed_ms_ago())},
                  {"cable", link.changed_on()}});
  }
}

// Reports a cable of a link that is still up.
void AddCableDown(const Facts& facts, const v1::NodeStatus& node, const v1::LinkStatus& link,
                  const v1::RailStatus& rail, Findings& findings) {
  const auto off = SwitchedOffUnder(facts.cluster, node, link, rail);
  if (off.has_value() && off->node == OwnStatus(facts.cluster).name()) return;  // MC202.
  if (off.has_value()) {
    return findings.Add("MC202/elsewhere",
                        absl::StrCat("node ", off->node, ", interface ", off->name),
                        {{"node", off->node}, {"interface", off->name}});
  }
  findings.Add(IsRouted(link) ? "MC305/routed" : "MC305",
               absl::StrCat("cable ", node.name(), " ", RailName(rail), " ", link.peer()),
               {{"state", rail.detail().empty() ? "down" : absl::StrCat("down: ", rail.detail())}});
}

// Returns whether a link to the node loses large frames: then MC515 explains why it does not
// answer.
bool LargeFramesAreLost(const ClusterFacts& cluster, const std::string& to) {
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      const bool lost = link.large_lost() || link.reason() == v1::LinkReason::large_lost;
      if (lost && link.peer() == to) return true;
    }
  }
  return false;
}

bool IsLossExplained(const Facts& facts, const std::string& lost) {
  if (LargeFramesAreLost(facts.cluster, lost)) return true;
  for (const v1::NodeStatus& node : facts.cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      if (link.peer() != lost || link.state() == v1::LinkState::up) continue;
      if (KindOf(FaultOf(facts, node, link).id)->explains_loss) return true;
    }
  }
  return false;
}

void CheckRefused(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  const std::string object = absl::StrCat("node ", node.name());
  if (node.strangers_refused() > 0 && IsRecent(facts, node.stranger_refused_ms_ago())) {
    findings.Add("MC509", object,
                 {{"strangers", Plural(node.strangers_refused(), "connection")},
                  {"ago", HumanTime(node.stranger_refused_ms_ago())}});
  }
  if (node.nodes_refused() > 0 && IsRecent(facts, node.node_refused_ms_ago())) {
    findings.Add("MC513", object,
                 {{"refused", Plural(node.nodes_refused(), "time")},
                  {"ago", HumanTime(node.node_refused_ms_ago())},
                  {"linked", std::to_string(node.nodes_linked())},
                  {"most", std::to_string(node.nodes_linked_max())}});
  }
}

void CheckRestart(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  const v1::RestartStatus& restart = node.restart();
  if (!IsRefused(restart, facts.recent_ms)) return;
  findings.Add("MC518", absl::StrCat("node ", node.name()),
               {{"refused", restart.refused()},
                {"ago", HumanTime(restart.refused_ms_ago())},
                {"node", node.name()}});
}

// New Macs of one model have the same name; a status appends the first digits of their ids.
void CheckNames(const ClusterFacts& cluster, Findings& findings) {
  std::map<std::string, std::vector<std::string>> shared;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    if (const std::string name = SharedName(node.name(), node.id()); !name.empty())
      shared[name].push_back(node.name());
  }
  for (const auto& [name, nodes] : shared) {
    if (nodes.size() < 2) continue;
    findings.Add("MC520", absl::StrCat("name ", name), {{"nodes", absl::StrJoin(nodes, ", ")}});
  }
}

void CheckJob(const v1::JobStatus& job, Findings& findings) {
  const std::string object = absl::StrCat("job ", job.name());
  if (job.state() == "failed") return findings.Add("MC510", object, {{"detail", job.detail()}});
  if (!job.circle().empty())
    return findings.Add("MC510/circle", object, {{"detail", job.circle()}});
  if (const std::string awaited = LongAwaited(job); !awaited.empty())
    return findings.Add("MC510/waits", object, {{"detail", awaited}});
  if (job.state() != "forming") return;
  if (const std::string other_half = OtherHalf(job); !other_half.empty())
    return findings.Add("MC510/halves", object, {{"detail", other_half}});
  std::uint64_t age_ms = 0;
  for (const v1::RankStatus& rank : job.ranks()) age_ms = std::max(age_ms, rank.operation_age_ms());
  const std::string what = job.detail().empty() ? "forms" : job.detail();
  if (age_ms >= kLongMs) {
    findings.Add("MC510/forming", object,
                 {{"detail", absl::StrCat(what, ", for ", HumanTime(age_ms))}});
  } else {
    findings.Add("MC517", object, {{"detail", what}});
  }
}

}  // namespace

void CheckLinks(const Facts& facts, Findings& findings) {
  const ClusterFacts& cluster = facts.cluster;
  Cables reported;
  std::set<std::pair<Pair, bool>>
      down;  // Both sides report a link, one of them perhaps only a circuit.
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      const std::string object = absl::StrCat("link ", node.name(), " to ", link.peer());
      CheckFrames(facts, object, link, findings);
      if (link.state() != v1::LinkState::up) {
        const bool routed = GoesThroughOthers(link.reason());
        if (!down.insert({std::minmax(node.name(), link.peer()), routed}).second) continue;
        const LinkFault fault = FaultOf(facts, node, link);
        findings.Add(fault.id, object, fault.values);
        continue;
      }
      for (const v1::RailStatus& rail : link.rails()) {
        if (!IsConnection(rail) || !reported.IsNew(node.name(), link, rail)) continue;
        CheckMtu(cluster, node, link, rail, findings);
        if (rail.state() == v1::RailState::up || rail.reason() == v1::LinkReason::large_lost)
          continue;
        AddCableDown(facts, node, link, rail, findings);
      }
    }
  }
  CheckSlowCables(cluster, findings);
  CheckDirections(cluster, findings);
  CheckPairing(cluster, findings);
}

void CheckNodes(const Facts& facts, Findings& findings) {
  const ClusterFacts& cluster = facts.cluster;
  std::map<std::string, std::vector<std::string>> by_version;
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    if (!node.version().empty()) by_version[node.version()].push_back(node.name());
    const std::string object = absl::StrCat("node ", node.name());
    if (!node.answered() && !LargeFramesAreLost(cluster, node.name())) {
      findings.Add(AnyLink(cluster, IsDown) ? "MC501/cut_off" : "MC501", object);
    }
    if (node.has_drain()) findings.Add("MC516", object, {{"waits", DrainText(node.drain())}});
    CheckRefused(facts, node, findings);
    CheckRestart(facts, node, findings);
  }
  for (const v1::TopologyNode& node : cluster.topology.nodes()) {
    if (node.state() != "lost" || IsLossExplained(facts, node.name())) continue;
    findings.Add("MC501/lost", absl::StrCat("node ", node.name()));
  }
  if (by_version.size() > 1) {
    findings.Add("MC503", "cluster", {{"versions", Grouped(by_version, "")}});
  }
  CheckNames(cluster, findings);
  CheckKeys(cluster, findings);
  CheckCheckups(cluster, findings);
  const v1::TopologyReply& topology = cluster.topology;
  if (topology.shape() == "line" && LacksACable(cluster)) {
    findings.Add("MC508", "cluster",
                 {{"nodes", std::to_string(topology.ring_size())},
                  {"first", NodeNameIn(topology, topology.ring(0))},
                  {"last", NodeNameIn(topology, topology.ring(topology.ring_size() - 1))}});
  }
  std::size_t ups = 0;
  for (const v1::NodeStatus& node : cluster.status.nodes()) ups += node.state() == "up";
  findings.Add("MC511", "cluster",
               {{"nodes", absl::StrCat(ups, ups == 1 ? " node is" : " nodes are")},
                {"shape", topology.shape()}});
  for (const v1::JobStatus& job : cluster.status.jobs()) CheckJob(job, findings);
  for (const v1::EndedJob& job : cluster.status.ended_jobs()) {
    if (HasFailed(job))
      findings.Add("MC519", absl::StrCat("job ", job.name()), {{"how", HowItFailed(job)}});
  }
}

}  // namespace mlxcomm::ctl

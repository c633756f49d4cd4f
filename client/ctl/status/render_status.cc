#include "client/ctl/status/render_status.h"
#include "client/ctl/cli/text.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/status/status_parts.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kLinkRowsMin = 8;   // Even if the screen has no room.
constexpr std::size_t kPlainRowsMin = 2;  // Healthy links, below the faulty ones.
constexpr std::size_t kPromptRows = 1;

// The link of two nodes, as both report it. Nodes that left the cluster differ only by name.
struct PairOfNodes {
  std::string names;
  std::string state;
  std::string detail;
  std::string over;  // "tcp", "2 tcp"
  double bytes_per_second = 0;
  double best_bytes_per_second = 0;
  std::uint64_t round_trip_ns = 0;  // 0: unknown.
  std::string faults;               // Lines below its row.
  std::string reported_rails;       // The node that reported the rails that are down.
  std::size_t links = 0;

  bool is_up() const { return state == "up"; }
};

std::string KindsOf(const v1::LinkStatus& link) {
  std::map<std::string, std::size_t> up;
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.state() == v1::RailState::up) ++up[WordOf(rail.transport())];
  }
  std::string kinds;
  for (const auto& [kind, count] : up) {
    kinds += (kinds.empty() ? "" : ", ") + (count > 1 ? std::to_string(count) + " " : "") + kind;
  }
  return kinds;
}

// Both sides report a rail that is down: one report is enough.
void AddFaults(const std::string& node, const v1::LinkStatus& link, const Painter& paint,
               PairOfNodes& pair) {
  std::string reported;
  RenderLinkFaults(link, "  ", paint, reported);
  if (pair.faults.find(reported) == std::string::npos) pair.faults += reported;
  if (!pair.reported_rails.empty() && pair.reported_rails != node) return;
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.state() == v1::RailState::up || (IsBeside(rail.transport()) && Passes(rail))) continue;
    RenderDownRail(rail, "  " + Shown(node) + ": ", paint, pair.faults);
    pair.reported_rails = node;
  }
}

void AddFigures(const v1::LinkStatus& link, PairOfNodes& pair) {
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.state() != v1::RailState::up) continue;
    pair.bytes_per_second += rail.sent_bytes_per_second() + rail.received_bytes_per_second();
    if (rail.round_trip_ns() == 0) continue;
    pair.round_trip_ns = pair.round_trip_ns == 0
                             ? rail.round_trip_ns()
                             : std::min<std::uint64_t>(pair.round_trip_ns, rail.round_trip_ns());
  }
}

// Like `topology`: adds up each cable's fastest rail, and keeps the slower direction.
void AddBest(const v1::LinkStatus& link, PairOfNodes& pair) {
  std::map<std::pair<std::string, std::string>, double> cables;
  for (const v1::RailStatus& rail : link.rails()) {
    if (rail.state() != v1::RailState::up) continue;
    double& best = cables[{rail.local_interface(), rail.remote_interface()}];
    best = std::max(best, rail.delivery_bytes_per_second_best());
  }
  double sum = 0;
  for (const auto& [ends, best] : cables) sum += best;
  double& slower = pair.best_bytes_per_second;
  if (sum > 0 && (slower == 0 || sum < slower)) slower = sum;
}

// Sorts by name, this node first.
v1::StatusReply InOrder(v1::StatusReply status) {
  auto& nodes = *status.mutable_nodes();
  const auto others = std::ranges::stable_partition(
      nodes, [&](const auto& node) { return node.name() == status.node(); });
  std::ranges::stable_sort(others, {}, [](const auto& node) { return NumbersPadded(node.name()); });
  for (v1::NodeStatus& node : nodes) {
    std::stable_sort(node.mutable_links()->begin(), node.mutable_links()->end(),
                     [](const auto& a, const auto& b) {
                       return NumbersPadded(a.peer()) < NumbersPadded(b.peer());
                     });
  }
  return status;
}

std::vector<PairOfNodes> PairsOf(const v1::StatusReply& status, const Painter& paint) {
  std::vector<PairOfNodes> pairs;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  std::set<std::string> ids;
  for (const v1::NodeStatus& node : status.nodes()) ids.insert(node.id());
  // Two nodes may have one name.
  const auto key_of = [&ids](const std::string& id, const std::string& name) {
    return !id.empty() && ids.contains(id) ? "id " + id : "name " + name;
  };
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      std::string here = key_of(node.id(), node.name());
      std::string there = key_of(link.peer_id(), link.peer());
      if (there < here) here.swap(there);
      const auto [entry, is_new] = known.try_emplace({here, there}, pairs.size());
      if (is_new) pairs.emplace_back();
      PairOfNodes& pair = pairs[entry->second];
      const std::string state = WordOf(link.state());
      if (is_new) pair.names = Shown(node.name()) + " - " + Shown(link.peer());
      // If reports differ, show the worse state.
      if (is_new || (pair.is_up() && state != "up")) pair.state = state;
      if (pair.detail.empty()) pair.detail = Shown(link.detail());
      if (pair.over.empty()) {
        pair.over = KindsOf(link);
        AddFigures(link, pair);
      }
      AddBest(link, pair);
      AddFaults(node.name(), link, paint, pair);
      ++pair.links;
    }
  }
  return pairs;
}

std::string Now(const PairOfNodes& pair) {
  return pair.over.empty() ? "" : RateNow(pair.bytes_per_second);
}
std::string RoundTrip(const PairOfNodes& pair) {
  return pair.round_trip_ns == 0 ? "" : HumanNanoseconds(pair.round_trip_ns);
}

// Keeps the busiest pairs, in their order; returns a line that counts the others.
std::string KeepBusiest(std::vector<PairOfNodes>& plain, std::size_t most) {
  if (plain.size() <= most) return {};
  std::vector<std::size_t> order(plain.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&plain](std::size_t a, std::size_t b) {
    return plain[a].bytes_per_second > plain[b].bytes_per_second;
  });
  order.resize(most);
  std::ranges::sort(order);
  std::vector<PairOfNodes> kept;
  for (const std::size_t at : order) kept.push_back(plain[at]);
  const std::string left_out = Plural(plain.size() - most, "link");
  plain.swap(kept);
  return "and " + left_out + " more that are up (-v shows all)\n";
}

void RenderInRows(const std::vector<PairOfNodes>& pairs, const Painter& paint, std::string& out) {
  constexpr std::size_t kState = 1;
  AlignedRows table;
  table.Add({"link", "state", "over", "now", "at best", "round trip"});
  for (const PairOfNodes& pair : pairs) {
    const std::string best =
        pair.best_bytes_per_second > 0 ? HumanRate(pair.best_bytes_per_second) : "";
    table.Add({pair.names, pair.state, pair.over, Now(pair), best, RoundTrip(pair)});
  }
  out += table.Line(0, AlignedRows::kNoColour, paint) + "\n";
  for (std::size_t at = 0; at < pairs.size(); ++at) {
    out += table.Line(at + 1, kState, paint);
    if (pairs[at].links > 2) out += "  " + std::to_string(pairs[at].links) + " times";
    if (!pairs[at].detail.empty()) out += "  " + pairs[at].detail;
    out += "\n" + pairs[at].faults;
  }
}

// Faulty links come first and are always shown; the busiest of the others get the remaining room.
void RenderLinks(const std::vector<PairOfNodes>& pairs, const Painter& paint, TerminalSize room,
                 std::string& out) {
  std::vector<PairOfNodes> marked;
  std::vector<PairOfNodes> plain;
  for (const PairOfNodes& pair : pairs) {
    const bool is_plain = pair.is_up() && pair.detail.empty() && pair.faults.empty();
    (is_plain ? plain : marked).push_back(pair);
  }
  if (pairs.empty()) return;
  std::string rows;
  if (!marked.empty()) RenderInRows(marked, paint, rows);
  const std::size_t taken = RowsOf(rows, room.columns);
  room.rows = std::max({room.rows, kLinkRowsMin, taken + kPlainRowsMin});
  for (std::size_t most = std::min(room.rows, plain.size()); most > 0; --most) {
    std::vector<PairOfNodes> shown = plain;
    const std::string left_out = KeepBusiest(shown, most);
    shown.insert(shown.begin(), marked.begin(), marked.end());
    rows.clear();
    RenderInRows(shown, paint, rows);
    rows += left_out;
    if (RowsOf(rows, room.columns) <= room.rows) break;
  }
  out += rows;
}

void RenderNodes(const v1::StatusReply& status, const Painter& paint, std::string& out) {
  constexpr std::size_t kState = 1;
  AlignedRows table;
  table.Add({"node", "state", "up for", "clients", "memory", "mlxcommd"});
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.answered()) {
      table.Add({Shown(node.name()), StateOf(node), HumanTime(node.uptime_ms()),
                 std::to_string(node.clients()),
                 HumanBytes(static_cast<double>(node.memory_bytes())), Shown(node.version())});
    } else {
      table.Add({Shown(node.name()), Shown(node.state())});
    }
  }
  out += table.Line(0, AlignedRows::kNoColour, paint) + "\n";
  for (int at = 0; at < status.nodes_size(); ++at) {
    const v1::NodeStatus& node = status.nodes(at);
    out += table.Line(static_cast<std::size_t>(at) + 1, kState, paint);
    if (!node.answered()) out += "  (did not answer in time)";
    if (node.name() == status.node()) out += "  (this node)";
    out += "\n";
    RenderBridged(node.discovery(), "  ", out);
    RenderUnlinked(node, "  ", out);
    RenderDevices(node, /*slow_only=*/true, "  ", out);
  }
}

// Leaves out short waits, which are normal in every operation.
google::protobuf::RepeatedPtrField<v1::WaitStatus> LongWaits(
    const google::protobuf::RepeatedPtrField<v1::WaitStatus>& waits) {
  constexpr std::uint64_t kLongMs = 1000;
  google::protobuf::RepeatedPtrField<v1::WaitStatus> found;
  for (const v1::WaitStatus& wait : waits) {
    if (wait.age_ms() >= kLongMs) *found.Add() = wait;
  }
  return found;
}

void RenderJobs(const v1::StatusReply& status, const Painter& paint, std::string& out) {
  for (const v1::JobStatus& job : status.jobs()) {
    out += "job " + JobLine(job, /*count_ranks=*/false, paint);
    RenderWaits(LongWaits(job.waits()), "  ", out);
    RenderCopies(job, "  ", out);
    for (const v1::GroupStatus& group : job.groups()) {
      const auto waits = LongWaits(group.waits());
      if (waits.empty() && group.detail().empty()) continue;
      out += "  group " + paint.Bold(group.name()) + "  " + paint.State(group.state());
      if (!group.detail().empty()) out += "  " + Shown(group.detail());
      out += "\n";
      RenderWaits(waits, "    ", out);
    }
  }
  RenderFailedJobs(status, "job ", paint, out);
  if (status.jobs_of_others() > 0) {
    out += Plural(status.jobs_of_others(), "job") + " of other users\n";
  }
}

}  // namespace

std::string RenderStatus(const v1::StatusReply& reported, bool colours, TerminalSize screen) {
  const v1::StatusReply status = InOrder(reported);
  const Painter paint(colours);
  const auto jobs = static_cast<std::uint64_t>(status.jobs_size());
  std::string above =
      "cluster " + paint.Bold(status.cluster()) + ", " +
      Plural(static_cast<std::uint64_t>(status.nodes_size()), "node") + ", " +
      (jobs == 0 && status.jobs_of_others() == 0 ? "no jobs" : Plural(jobs, "job")) + "\n";
  RenderNodes(status, paint, above);
  std::string below;
  RenderJobs(status, paint, below);
  below += HealthLine(status, paint);
  const std::size_t taken =
      RowsOf(above, screen.columns) + RowsOf(below, screen.columns) + kPromptRows;
  std::string links;
  RenderLinks(PairsOf(status, paint), paint,
              {.columns = screen.columns, .rows = screen.rows - std::min(screen.rows, taken)},
              links);
  return above + links + below;
}

}  // namespace mlxcomm::ctl

#include "client/ctl/topology/render_topology.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

std::string State(const std::string& state, bool colours) {
  return Coloured(state == "up" ? "32" : "31", Shown(state), colours);
}

std::string Ring(const v1::TopologyReply& topology) {
  std::string text;
  for (const std::string& id : topology.ring()) {
    text += (text.empty() ? "" : " - ") + Shown(NodeNameIn(topology, id));
  }
  if (topology.ring_closed()) text += " - " + Shown(NodeNameIn(topology, topology.ring(0)));
  return text;
}

struct Line {
  std::string from;  // "node-0 en2"
  std::string to;    // "en3 node-1"
  const v1::TopologyCable* cable = nullptr;
};

// Returns the cables sorted, with names instead of node ids.
std::vector<Line> LinesOf(const v1::TopologyReply& topology) {
  using End = std::pair<std::string, std::string>;
  std::vector<std::pair<std::pair<End, End>, const v1::TopologyCable*>> cables;
  for (const v1::TopologyCable& cable : topology.cables()) {
    const End from{Shown(NodeNameIn(topology, cable.from_node())), Shown(cable.from_interface())};
    const End to{Shown(NodeNameIn(topology, cable.to_node())), Shown(cable.to_interface())};
    cables.emplace_back(std::minmax(from, to), &cable);
  }
  std::ranges::stable_sort(cables, {}, [](const auto& cable) { return cable.first; });
  std::vector<Line> lines;
  for (const auto& [ends, cable] : cables) {
    const auto& [from, to] = ends;
    lines.push_back({from.first + " " + from.second, to.second + " " + to.first, cable});
  }
  return lines;
}

// "3.2 GB/s, 40.0 us"; "not measured yet".
std::string CableFigures(const v1::TopologyCable& cable) {
  std::string text;
  if (cable.bytes_per_second_best() >= 1) {
    text = HumanRate(cable.bytes_per_second_best());
  }
  if (cable.round_trip_ns() > 0) {
    text += (text.empty() ? "" : ", ") + HumanNanoseconds(cable.round_trip_ns());
  }
  return text.empty() ? "not measured yet" : text;
}

// Rails with their rates, or why one is missing; "" if only TCP was tried.
std::string RailsOn(const v1::TopologyCable& cable) {
  std::string text;
  const bool alone = cable.rails_size() < 2;
  for (const v1::TopologyRail& rail : cable.rails()) {
    if (alone && rail.transport() == v1::Transport::tcp) continue;
    text += text.empty() ? "" : ", ";
    if (rail.state() != v1::RailState::up) {
      text += "no " + WordOf(rail.transport()) +
              (rail.detail().empty() ? "" : ": " + Shown(rail.detail()));
      continue;
    }
    text += WordOf(rail.transport());
    if (alone || rail.bytes_per_second_best() < 1) continue;
    text += " " + HumanRate(rail.bytes_per_second_best());
  }
  return text;
}

}  // namespace

std::string NodeNameIn(const v1::TopologyReply& topology, const std::string& id) {
  for (const v1::TopologyNode& node : topology.nodes()) {
    if (node.id() == id && !node.name().empty()) return node.name();
  }
  return id;
}

std::string RenderTopology(const v1::TopologyReply& topology, bool colours) {
  std::string out = "cluster " + Coloured("1", Shown(topology.cluster()), colours) + ", " +
                    Plural(static_cast<std::uint64_t>(topology.nodes_size()), "node") + ": " +
                    Coloured("1", Shown(topology.shape()), colours) + "\n";
  if (topology.ring_size() > 1) {
    out += (topology.ring_closed() ? "ring   " : "order  ") + Ring(topology) + "\n";
  }
  out += "nodes\n";
  for (const v1::TopologyNode& node : topology.nodes()) {
    out += "  " + Shown(node.name()) + "  " + State(node.state(), colours);
    if (!node.version().empty()) out += "  mlxcommd " + Shown(node.version());
    if (node.name() == topology.node()) out += "  (this node)";
    if (!node.answered() && node.state() != "lost") out += "  (did not answer in time)";
    out += "\n";
  }
  const auto& cables = topology.cables();
  const bool rated = std::ranges::any_of(
      cables, [](const auto& cable) { return cable.bytes_per_second_best() >= 1; });
  out += cables.empty() ? "no cables" : "cables";
  out += rated ? " (rates: at best, in the slower direction)\n" : "\n";
  std::size_t widths[2] = {0, 0};
  const std::vector<Line> lines = LinesOf(topology);
  for (const Line& line : lines) {
    widths[0] = std::max(widths[0], line.from.size());
    widths[1] = std::max(widths[1], line.to.size());
  }
  for (const Line& line : lines) {
    const v1::TopologyCable& cable = *line.cable;
    out += "  " + Padded(line.from, widths[0]) + " - " + Padded(line.to, widths[1]) + "  " +
           State(WordOf(cable.state()), colours) + "  ";
    out += cable.state() == v1::RailState::up ? CableFigures(cable) : Shown(cable.detail());
    if (cable.switch_number() > 0) {
      out += ", through switch " + std::to_string(cable.switch_number());
    }
    const std::string rails = cable.state() == v1::RailState::up ? RailsOn(cable) : "";
    if (!rails.empty()) out += "  (" + rails + ")";
    while (out.ends_with(' ')) out.pop_back();
    out += "\n";
  }
  return out;
}

}  // namespace mlxcomm::ctl

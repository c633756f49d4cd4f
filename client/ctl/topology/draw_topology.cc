#include "client/ctl/topology/draw_topology.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/topology/render_topology.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

constexpr double kApart = 4.2;          // Inches between neighbours: room for a cable's labels.
constexpr int kLabelledCablesMax = 16;  // Of more, only those in the ring and those that are down.

// A long name would push everything else out of the picture.
std::string Short(const std::string& text) {
  constexpr std::size_t kMost = 24;
  const std::string shown = Shown(text);
  return shown.size() <= kMost ? shown : shown.substr(0, kMost - 2) + "..";
}

using NodePair = std::pair<std::string, std::string>;
NodePair PairOf(const std::string& a, const std::string& b) { return std::minmax(a, b); }

class Picture {
 public:
  explicit Picture(const v1::TopologyReply& topology) : topology_(topology) {
    const int count = topology_.ring_size();
    for (int i = 0; i < count && count > 1; ++i) {
      if (i + 1 == count && !topology_.ring_closed()) break;
      ring_.insert(PairOf(topology_.ring(i), topology_.ring((i + 1) % count)));
    }
    for (const v1::TopologyCable& cable : topology_.cables())
      switches_ = std::max(switches_, cable.switch_number());
    switches_ = std::min(switches_, static_cast<std::uint32_t>(topology_.cables_size()));
  }

  std::string Draw() {
    std::string out =
        "graph topology {\n  layout=neato; splines=true; labelloc=t; fontname=Helvetica;\n  "
        "label=" +
        DotString(Title()) +
        ";\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#eef2f8\", "
        "fontname=Helvetica];\n  edge [color=\"#2b6b3a\", fontname=Helvetica, fontsize=10, "
        "labeldistance=2];\n";
    const std::vector<const v1::TopologyNode*> order = Order();
    for (std::size_t i = 0; i < order.size(); ++i) out += DrawNode(*order[i], i, order.size());
    for (std::uint32_t i = 1; i <= switches_; ++i) {
      out += "  " + Switch(i) + " [shape=box, style=filled, " +
             DotAt({(i - 1 - (switches_ - 1) / 2.0) * 1.8, order.size() <= 2 ? 1.4 : 0}) + "];\n";
    }
    for (const v1::TopologyCable& cable : topology_.cables()) out += DrawCable(cable);
    return out + "}\n";
  }

 private:
  std::string Title() const {
    std::string title = topology_.cluster() + ", " +
                        Plural(static_cast<std::uint64_t>(topology_.nodes_size()), "node") + ": " +
                        topology_.shape();
    std::string legend;
    if (!ring_.empty()) {
      legend = topology_.ring_closed() ? "thick: the ring" : "thick: ring order, not closed";
    }
    const auto is_down = [](const auto& cable) { return cable.state() != v1::RailState::up; };
    if (std::any_of(topology_.cables().begin(), topology_.cables().end(), is_down))
      legend += std::string(legend.empty() ? "" : "; ") + "dashed red: down";
    return legend.empty() ? title : title + "\n" + legend;
  }

  // By name alone, so that a node stays in its place whatever becomes of cables and ring.
  std::vector<const v1::TopologyNode*> Order() const {
    std::vector<const v1::TopologyNode*> order;
    for (const v1::TopologyNode& node : topology_.nodes()) order.push_back(&node);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::pair(NumbersPadded(a->name()), a->id()) <
             std::pair(NumbersPadded(b->name()), b->id());
    });
    return order;
  }

  // On a circle, the first at the top; two of them beside each other.
  std::string DrawNode(const v1::TopologyNode& node, std::size_t number, std::size_t count) const {
    const double radius =
        count < 2 ? 0 : kApart / (2 * std::sin(std::numbers::pi / static_cast<double>(count)));
    const double turn =
        2 * std::numbers::pi * static_cast<double>(number) / static_cast<double>(count) -
        (count == 2 ? std::numbers::pi / 2 : 0);
    const bool own = node.name() == topology_.node();
    const bool silent = !own && node.state() == "up" && !node.answered();
    const std::string state = own      ? node.state() + ", this node"
                              : silent ? "does not answer"
                                       : node.state();
    std::string look = own ? ", color=\"#0a5bd0\", penwidth=3" : "";
    if (node.state() != "up" || silent)
      look = ", color=\"#c62828\", fillcolor=\"#fbe9e7\", style=\"rounded,filled,dashed\"";
    return "  " + DotString(node.id()) + " [label=" + DotString(Short(node.name()) + "\n" + state) +
           look + ", " + DotAt({radius * std::sin(turn), radius * std::cos(turn)}) + "];\n";
  }

  std::string Look(const v1::TopologyCable& cable, bool in_ring) const {
    const bool up = cable.state() == v1::RailState::up;
    const std::string rails = RailsOn(cable);
    const std::string told = NodeNameIn(topology_, cable.from_node()) + " " +
                             cable.from_interface() + " - " + cable.to_interface() + " " +
                             NodeNameIn(topology_, cable.to_node()) + ": " + WordOf(cable.state()) +
                             ", " + (up ? CableFigures(cable) : cable.detail()) +
                             (rails.empty() ? "" : "; " + rails);
    return ", tooltip=" + DotString(told) + (in_ring ? ", penwidth=3" : "") +
           (up ? "" : ", color=\"#c62828\", fontcolor=\"#c62828\", style=dashed");
  }

  std::string DrawCable(const v1::TopologyCable& cable) {
    const bool in_ring = ring_.contains(PairOf(cable.from_node(), cable.to_node()));
    if (cable.switch_number() > 0) return DrawThroughSwitch(cable, in_ring);
    std::string out =
        "  " + DotString(cable.from_node()) + " -- " + DotString(cable.to_node()) + " [";
    if (topology_.cables_size() <= kLabelledCablesMax || in_ring ||
        cable.state() != v1::RailState::up) {
      out += "taillabel=" + DotString(Short(cable.from_interface())) +
             ", headlabel=" + DotString(Short(cable.to_interface())) +
             ", label=" + DotString(CableLabel(cable)) + ", ";
    }
    return out + "labelfontsize=10" + Look(cable, in_ring) + "];\n";
  }

  // One line from each port to its switch; the figures of two neighbours in the ring stand on a
  // line of their own between them.
  std::string DrawThroughSwitch(const v1::TopologyCable& cable, bool in_ring) {
    std::string out;
    if (in_ring) {
      out += "  " + DotString(cable.from_node()) + " -- " + DotString(cable.to_node()) +
             " [color=\"#b9d2f7\", label=" + DotString(CableLabel(cable)) + Look(cable, true) +
             "];\n";
    }
    const std::pair<const std::string*, const std::string*> ends[] = {
        {&cable.from_node(), &cable.from_interface()}, {&cable.to_node(), &cable.to_interface()}};
    for (const auto& [id, interface] : ends) {
      if (!ports_.insert({*id, *interface}).second) continue;
      out += "  " + DotString(*id) + " -- " + Switch(cable.switch_number()) +
             " [taillabel=" + DotString(Short(*interface)) + ", labelfontsize=10" +
             Look(cable, false) + "];\n";
    }
    return out;
  }

  static std::string Switch(std::uint32_t number) {
    return DotString("switch " + std::to_string(number));
  }

  const v1::TopologyReply& topology_;
  std::set<NodePair> ring_;  // Neighbours in it.
  std::set<std::pair<std::string, std::string>> ports_;
  std::uint32_t switches_ = 0;
};

}  // namespace

std::string DotString(const std::string& text) {
  std::string out = "\"";
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out += "\\n";
    for (const char c : Shown(text.substr(at, end - at))) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    at = end + 1;
  }
  return out + "\"";
}

std::string DotAt(std::pair<double, double> place) {
  char text[64];
  std::snprintf(text, sizeof text, "pos=\"%.2f,%.2f!\"", place.first, place.second);
  return text;
}

std::string DrawTopology(const v1::TopologyReply& topology) { return Picture(topology).Draw(); }

}  // namespace mlxcomm::ctl

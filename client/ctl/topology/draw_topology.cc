#include "client/ctl/topology/draw_topology.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/topology/render_topology.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

constexpr double kLetter = 0.1;         // Width of a letter; lengths are in inches.
constexpr double kLine = 0.25;          // Height of a line of text.
constexpr double kGap = 0.2;            // The space between a node and its nearest label.
constexpr double kApartLeast = 4.2;     // Minimum between neighbours.
constexpr int kLabelledCablesMax = 16;  // Beyond it, only broken ones and a ring's.

// Shortens a long name, but keeps its end, where names differ.
std::string Short(const std::string& text) {
  constexpr std::size_t kMost = 24, kBegin = 8;
  std::string shown = Shown(text);
  if (shown.size() <= kMost) return shown;
  const auto is_inside = [&shown](std::size_t at) { return (shown[at] & 0xC0) == 0x80; };  // UTF-8
  std::size_t begin = kBegin, end = shown.size() - (kMost - kBegin - 2);
  while (begin > 0 && is_inside(begin)) --begin;
  while (end < shown.size() && is_inside(end)) ++end;
  return shown.replace(begin, end - begin, "..");
}

using Point = std::complex<double>;
// The distance from a box's centre to its border, for one or two lines of text.
double Reach(const std::string& text, Point along) {
  const std::size_t first = std::min(text.find('\n'), text.size());
  const std::size_t widest = std::max(first, text.size() - first);
  return (static_cast<double>(widest) * kLetter * std::abs(along.real()) +
          (first < text.size() ? 2 : 1) * kLine * std::abs(along.imag())) /
         2;
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
        "graph topology {\n  layout=neato; splines=line; outputorder=edgesfirst; bgcolor=white; "
        "labelloc=t; fontname=Helvetica;\n  label=" +
        DotString(Title()) +
        ";\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#eef2f8\", "
        "fontname=Helvetica];\n  edge [color=\"#2b6b3a\"];\n";
    const std::vector<const v1::TopologyNode*> order = Order();
    const double apart = Apart();
    for (std::size_t i = 0; i < order.size(); ++i)
      out += DrawNode(*order[i], i, order.size(), apart);
    for (std::uint32_t i = 1; i <= switches_; ++i) {
      const double aside =
          i - 1 - (switches_ - 1) / 2.0;  // Not in a row, so that no line crosses a switch.
      const Point at{aside * 1.8, order.size() <= 2 ? 1.4 : aside * 0.9};
      texts_[Switch(i)] = Switch(i);
      places_[Switch(i)] = at;
      out += "  " + DotString(Switch(i)) + " [style=filled, " + DotAt(at) + "];\n";
    }
    out +=
        "  node [style=filled, fillcolor=white, penwidth=0, margin=\"0.03,0.02\", width=0, "
        "height=0, fontsize=11];\n";
    for (const v1::TopologyCable& cable : topology_.cables())
      ++cables_of_[PairOf(cable.from_node(), cable.to_node())];
    for (const v1::TopologyCable& cable : topology_.cables()) out += DrawCable(cable);
    return out + "}\n";
  }

 private:
  std::string Title() const {
    std::string title = topology_.cluster() + ", " +
                        Plural(static_cast<std::uint64_t>(topology_.nodes_size()), "node") + ": " +
                        topology_.shape();
    const auto any = [&cables = topology_.cables()](const auto& is) {
      return std::ranges::any_of(cables, is);
    };
    if (!ring_.empty())
      title += topology_.ring_closed() ? "\nthick: the ring" : "\nthick: ring order, not closed";
    if (any([](const auto& cable) { return cable.state() != v1::RailState::up; }))
      title += "\ndashed red: down";
    if (any([](const auto& cable) { return cable.bytes_per_second_best() >= 1; }))
      title += std::string("\nrates: ") + kRatesAre;
    return title;
  }

  // The distance between neighbours, enough for the longest texts.
  double Apart() const {
    std::size_t letters = 0;
    for (const v1::TopologyNode& node : topology_.nodes())
      letters = std::max(letters, Short(node.name()).size());
    for (const v1::TopologyCable& cable : topology_.cables()) {
      for (const std::string& interface : {cable.from_interface(), cable.to_interface()})
        letters = std::max(letters, Short(interface).size());
    }
    return std::max(kApartLeast, (3 * static_cast<double>(letters) + 14) * kLetter);
  }

  // Sorted by name, so that nodes do not move when cables change.
  std::vector<const v1::TopologyNode*> Order() const {
    std::vector<const v1::TopologyNode*> order;
    for (const v1::TopologyNode& node : topology_.nodes()) order.push_back(&node);
    std::ranges::sort(order, {}, [](const auto* node) {
      return std::pair(NumbersPadded(node->name()), node->id());
    });
    return order;
  }

  // On a circle, the first at the top; two nodes side by side.
  std::string DrawNode(const v1::TopologyNode& node, std::size_t number, std::size_t count,
                       double apart) {
    const double turns = static_cast<double>(number) / static_cast<double>(count);
    const double radius =
        count < 2 ? 0 : apart / (2 * std::sin(std::numbers::pi / static_cast<double>(count)));
    const Point at =
        std::polar(radius, (count == 2 ? 1 + 2 * turns : 0.5 - 2 * turns) * std::numbers::pi);
    const bool own = node.name() == topology_.node();
    const bool silent = !own && node.state() == "up" && !node.answered();
    const std::string state = own      ? node.state() + ", this node"
                              : silent ? "does not answer"
                                       : node.state();
    std::string look = own ? ", color=\"#0a5bd0\", penwidth=3" : "";
    if (node.state() != "up" || silent)
      look = ", color=\"#c62828\", fillcolor=\"#fbe9e7\", style=\"rounded,filled,dashed\"";
    const std::string text = Short(node.name()) + "\n" + state;
    texts_[node.id()] = text;
    places_[node.id()] = at;
    return "  " + DotString(node.id()) + " [label=" + DotString(text) + look + ", " + DotAt(at) +
           "];\n";
  }

  std::string Look(const v1::TopologyCable& cable, bool in_ring) const {
    const bool up = cable.state() == v1::RailState::up;
    const std::string rails = RailsOn(cable);
    const std::string tooltip =
        NodeNameIn(topology_, cable.from_node()) + " " + cable.from_interface() + " - " +
        cable.to_interface() + " " + NodeNameIn(topology_, cable.to_node()) + ": " +
        WordOf(cable.state()) + ", " + (up ? CableFigures(cable) : cable.detail()) +
        (rails.empty() ? "" : "; " + rails);
    return "tooltip=" + DotString(tooltip) + (in_ring ? ", penwidth=3" : "") +
           (up ? "" : ", color=\"#c62828\", style=dashed");
  }

  // Draws a line through its labels, which are nodes for Graphviz: the interfaces at its ends, the
  // figures in the middle. Parallel lines are drawn side by side.
  std::string DrawLine(const std::string& from, const std::string& to, bool up,
                       const std::string& look, const std::array<std::string, 3>& labels) {
    if (!places_.contains(from) || !places_.contains(to) || from == to) return {};
    const NodePair pair = PairOf(from, to);
    const Point begin = places_[pair.first], end = places_[pair.second];
    const Point along = (end - begin) / std::abs(end - begin);
    const Point aside = along * Point{0, 1};
    const double apart = std::min(1.3 / std::max(std::abs(aside.real()), 0.01),
                                  0.5 / std::max(std::abs(aside.imag()), 0.01));
    const int count = cables_of_.contains(pair) ? cables_of_[pair] : 1;
    const Point beside = aside * (apart * (drawn_[pair]++ - (count - 1) / 2.0));
    const bool turned = pair.first != from;
    // Labels of lines through the centre are spread out.
    constexpr double kParts[] = {0.5, 0.72, 0.28, 0.61, 0.39};
    double part = kParts[0];
    if (places_.size() > 2 && std::abs(begin + end) < 0.1)
      part = kParts[through_middle_++ % std::size(kParts)];
    const Point places[] = {begin + along * (Reach(texts_[pair.first], along) +
                                             Reach(labels[turned ? 2 : 0], along) + kGap),
                            begin + (end - begin) * part,
                            end - along * (Reach(texts_[pair.second], along) +
                                           Reach(labels[turned ? 0 : 2], along) + kGap)};
    std::string out, path = DotString(pair.first);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string& text = labels[turned ? 2 - i : i];
      if (text.empty() && (i != 1 || count == 1)) continue;
      const std::string name = DotString("label " + std::to_string(++labels_));
      out +=
          "  " + name + " [label=" + DotString(text) + (up ? ", " : ", fontcolor=\"#c62828\", ") +
          (text.empty() ? "shape=point, style=invis, " : "") + DotAt(places[i] + beside) + "];\n";
      path += " -- " + name;
    }
    return out + "  " + path + " -- " + DotString(pair.second) + " [" + look + "];\n";
  }

  std::string DrawCable(const v1::TopologyCable& cable) {
    const std::string& from = cable.from_node();
    const std::string& to = cable.to_node();
    const bool in_ring = ring_.contains(PairOf(from, to));
    const bool up = cable.state() == v1::RailState::up;
    std::string figures = CableLabel(cable);
    if (const std::size_t rate = figures.find("/s, "); rate != std::string::npos)
      figures.replace(rate + 2, 2, "\n");
    if (cable.switch_number() == 0) {
      const bool labelled = topology_.cables_size() <= kLabelledCablesMax || in_ring || !up;
      return DrawLine(
          from, to, up, Look(cable, in_ring),
          labelled ? std::array{Short(cable.from_interface()), figures, Short(cable.to_interface())}
                   : std::array<std::string, 3>{});
    }
    // One line from each port to its switch; a separate line between ring neighbours has the
    // figures.
    std::string out;
    if (in_ring)
      out += DrawLine(from, to, up, "color=\"#b9d2f7\", " + Look(cable, true), {"", figures, ""});
    const std::pair<std::string, std::string> ends[] = {{from, cable.from_interface()},
                                                        {to, cable.to_interface()}};
    for (const auto& [id, interface] : ends) {
      if (!ports_.insert({id, interface}).second) continue;
      out += DrawLine(id, Switch(cable.switch_number()), up, Look(cable, false),
                      {Short(interface), "", ""});
    }
    return out;
  }

  static std::string Switch(std::uint32_t number) { return "switch " + std::to_string(number); }

  const v1::TopologyReply& topology_;
  std::set<NodePair> ring_;  // Pairs of neighbours.
  std::set<std::pair<std::string, std::string>> ports_;
  std::uint32_t switches_ = 0;
  std::map<std::string, Point> places_;  // Nodes and switches.
  std::map<std::string, std::string> texts_;
  std::map<NodePair, int> cables_of_;
  std::map<NodePair, int> drawn_;
  std::size_t through_middle_ = 0;
  int labels_ = 0;
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

std::string DotAt(std::complex<double> place) {
  return absl::StrFormat("pos=\"%.2f,%.2f!\"", place.real(), place.imag());
}

std::string DrawTopology(const v1::TopologyReply& topology) { return Picture(topology).Draw(); }

}  // namespace mlxcomm::ctl

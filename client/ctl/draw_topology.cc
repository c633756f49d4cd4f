#include "client/ctl/draw_topology.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "client/ctl/render_status.h"
#include "client/ctl/render_topology.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

constexpr double kCharacter = 8.2;       // Of a node's name, as wide as fonts get.
constexpr double kSmallCharacter = 6.8;  // Of a label.
constexpr double kNodeHeight = 52;
constexpr double kLabelHeight = 17;
constexpr double kBend = 68;            // Between two cables of a pair, where their bends are.
constexpr int kLabelledCablesMax = 16;  // Of more, only those in the ring and those that are down.

struct DrawnPoint {
  double x = 0;
  double y = 0;
};
DrawnPoint operator+(DrawnPoint a, DrawnPoint b) { return {a.x + b.x, a.y + b.y}; }
DrawnPoint operator-(DrawnPoint a, DrawnPoint b) { return {a.x - b.x, a.y - b.y}; }
DrawnPoint operator*(DrawnPoint a, double by) { return {a.x * by, a.y * by}; }

// Of a cable: from a to b, drawn towards `bend`.
struct Curve {
  DrawnPoint a, bend, b;
  DrawnPoint At(double t) const {
    return a * ((1 - t) * (1 - t)) + bend * (2 * t * (1 - t)) + b * (t * t);
  }
};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : Shown(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// A long name would push everything else out of the picture.
std::string Short(const std::string& text, std::size_t most = 24) {
  const std::string shown = Shown(text);
  return shown.size() <= most ? shown : shown.substr(0, most - 2) + "..";
}

constexpr const char* kStyle = R"(<style>
text { font-family: -apple-system, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; fill: #1c2430; }
.page { fill: #ffffff; } .title { font-size: 17px; font-weight: 600; }
.node { fill: #eef2f8; stroke: #4a5a70; stroke-width: 1.5; } .own { stroke: #0a5bd0; stroke-width: 3; }
.gone { fill: #fbe9e7; stroke: #c62828; stroke-dasharray: 6 4; }
.name { font-size: 14px; font-weight: 600; text-anchor: middle; }
.small { font-size: 11px; } .centre { text-anchor: middle; } .faint { fill: #5a6675; }
.ring { stroke: #b9d2f7; stroke-width: 16; stroke-linecap: round; fill: none; }
.cable { stroke: #2b6b3a; stroke-width: 2.5; fill: none; }
.down { stroke: #c62828; stroke-width: 2.5; stroke-dasharray: 8 6; fill: none; }
.label { fill: #ffffff; } .bad { fill: #c62828; }
@media (prefers-color-scheme: dark) {
text { fill: #e6ebf2; } .page, .label { fill: #14181f; } .node { fill: #232b37; stroke: #93a4bb; }
.own { stroke: #6aa8ff; } .gone { fill: #3a1f1f; stroke: #ff7b72; } .faint { fill: #9aa7b8; }
.ring { stroke: #24406b; } .cable { stroke: #6cc280; } .down { stroke: #ff7b72; } .bad { fill: #ff7b72; }
}
</style>
)";

class Picture {
 public:
  explicit Picture(const v1::TopologyReply& topology) : topology_(topology) { Place(); }

  std::string Draw() {
    DrawRing();
    DrawSwitches();
    for (int i = 0; i < topology_.cables_size(); ++i) DrawCable(topology_.cables(i));
    for (const auto& [id, box] : boxes_) DrawNode(box);
    const std::string size = Number(width_) + " " + Number(height_);
    const std::string title = topology_.cluster() + ", " + std::to_string(topology_.nodes_size()) +
                              (topology_.nodes_size() == 1 ? " node: " : " nodes: ") +
                              topology_.shape();
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size +
                      "\" width=\"" + Number(width_) + "\" height=\"" + Number(height_) +
                      "\" role=\"img\">\n<title>" + Escaped(title) + "</title>\n" + kStyle;
    out += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    out += "<text class=\"title centre\" x=\"" + Number(width_ / 2) + "\" y=\"32\">" +
           Escaped(title) + "</text>\n";
    out += ring_ + lines_ + nodes_ + labels_;
    out += Text(width_ / 2, height_ - 16, "small centre faint", Legend());
    return out + "</svg>\n";
  }

 private:
  struct Box {
    const v1::TopologyNode* node = nullptr;
    DrawnPoint centre;
    double width = 0;
  };

  void Place() {
    std::vector<const v1::TopologyNode*> order;
    std::set<std::string> placed;
    for (const std::string& id : topology_.ring()) {
      for (const v1::TopologyNode& node : topology_.nodes()) {
        if (node.id() == id && placed.insert(id).second) order.push_back(&node);
      }
    }
    for (const v1::TopologyNode& node : topology_.nodes()) {
      if (placed.insert(node.id()).second) order.push_back(&node);
    }
    const auto count = static_cast<double>(order.size());
    double widest = 116;
    for (const v1::TopologyNode* const node : order) {
      widest = std::max(widest, kCharacter * static_cast<double>(Short(node->name()).size()) + 28);
    }
    // Neighbours on the circle are far enough apart for a cable with its labels.
    const double apart = widest + 190;
    const double radius = order.size() < 2 ? 0
                          : order.size() == 2
                              ? apart * 0.75
                              : std::max(170.0, apart / (2 * std::sin(std::numbers::pi / count)));
    const bool flat = order.size() <= 2;
    double lowest = 0;  // Of odd numbers of nodes none is at the circle's lowest point.
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double start = flat ? std::numbers::pi : -std::numbers::pi / 2;
      const double angle = start + 2 * std::numbers::pi * static_cast<double>(i) / count;
      Box box{order[i], DrawnPoint{std::cos(angle), std::sin(angle)} * radius, widest};
      lowest = std::max(lowest, box.centre.y);
      boxes_[order[i]->id()] = box;
    }
    int beside_most = 1;
    for (const v1::TopologyCable& cable : topology_.cables()) {
      beside_most = std::max(beside_most, ++total_[PairOf(cable)]);
      switches_ = std::max(switches_, static_cast<double>(cable.switch_number()));
    }
    // Cables beside each other bend out of the row of two nodes; a switch is between them.
    const double bent = kBend / 2 * (beside_most - 1) / 2;
    const double above = flat ? (switches_ > 0 ? 2 * kNodeHeight : kNodeHeight / 2 + bent) : radius;
    width_ = std::max(420.0, 2 * radius + widest + 60);
    middle_ = {width_ / 2, above + kNodeHeight / 2 + 62};
    height_ = middle_.y + std::max(lowest, flat ? bent : 0) + kNodeHeight + 60;
    for (auto& [id, box] : boxes_) box.centre = box.centre + middle_;
  }

  static std::pair<std::string, std::string> PairOf(const v1::TopologyCable& cable) {
    return std::minmax(cable.from_node(), cable.to_node());
  }

  bool IsInRing(const v1::TopologyCable& cable) const {
    const int count = topology_.ring_size();
    for (int i = 0; i < count; ++i) {
      if (i + 1 == count && !topology_.ring_closed()) break;
      const std::string& a = topology_.ring(i);
      const std::string& b = topology_.ring((i + 1) % count);
      if (PairOf(cable) == std::pair<std::string, std::string>(std::minmax(a, b))) return true;
    }
    return false;
  }

  void DrawRing() {
    const int count = topology_.ring_size();
    for (int i = 0; i < count && count > 1; ++i) {
      if (i + 1 == count && (!topology_.ring_closed() || count == 2)) break;
      const auto a = boxes_.find(topology_.ring(i));
      const auto b = boxes_.find(topology_.ring((i + 1) % count));
      if (a == boxes_.end() || b == boxes_.end()) continue;
      ring_ += "<line class=\"ring\" x1=\"" + Number(a->second.centre.x) + "\" y1=\"" +
               Number(a->second.centre.y) + "\" x2=\"" + Number(b->second.centre.x) + "\" y2=\"" +
               Number(b->second.centre.y) + "\"/>\n";
    }
  }

  // In the middle, beside each other; above the row of two nodes.
  DrawnPoint SwitchAt(std::uint32_t number) const {
    const double up = boxes_.size() <= 2 ? 2 * kNodeHeight : 0;
    return middle_ + DrawnPoint{(number - 1 - (switches_ - 1) / 2.0) * 130, -up};
  }
  void DrawSwitches() {
    for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(switches_); ++i) {
      const DrawnPoint at = SwitchAt(i);
      nodes_ += "<rect class=\"node\" x=\"" + Number(at.x - 50) + "\" y=\"" + Number(at.y - 18) +
                "\" width=\"100\" height=\"36\"/>\n" +
                Text(at.x, at.y + 5, "name", "switch " + std::to_string(i));
    }
  }

  void DrawCable(const v1::TopologyCable& cable) {
    const auto from = boxes_.find(cable.from_node());
    const auto to = boxes_.find(cable.to_node());
    if (from == boxes_.end() || to == boxes_.end()) return;
    if (cable.switch_number() > 0) return DrawThroughSwitch(cable);
    const DrawnPoint a = from->second.centre;
    const DrawnPoint b = to->second.centre;
    const auto pair = PairOf(cable);
    const double place = drawn_[pair]++ - (total_[pair] - 1) / 2.0;
    // The bend has the same side for all cables of a pair, whichever end they begin at.
    const DrawnPoint along = pair.first == cable.from_node() ? b - a : a - b;
    const double length = std::max(1.0, std::hypot(along.x, along.y));
    const DrawnPoint bend =
        (a + b) * 0.5 + DrawnPoint{-along.y, along.x} * (place * kBend / length);
    DrawCurve(cable, {a, bend, b});
    const bool labelled = topology_.cables_size() <= kLabelledCablesMax || IsInRing(cable) ||
                          cable.state() != v1::RailState::up;
    if (!labelled) return;
    // Cables across the ring meet in its middle.
    const bool across = !IsInRing(cable) && total_.size() > static_cast<std::size_t>(boxes_.size());
    const double where = across ? 0.36 : 0.5;
    const bool up = cable.state() == v1::RailState::up;
    LabelOn({a, bend, b}, where, CableLabel(cable), up ? "" : " bad");
    LabelOn({a, bend, b}, Leaving({a, bend, b}, from->second), cable.from_interface(), " faint");
    LabelOn({b, bend, a}, Leaving({b, bend, a}, to->second), cable.to_interface(), " faint");
  }

  // One line from each port to its switch; the figures of two nodes that follow each other in
  // the ring stand on the ring between them.
  void DrawThroughSwitch(const v1::TopologyCable& cable) {
    if (IsInRing(cable)) {
      const DrawnPoint between =
          (boxes_.at(cable.from_node()).centre + boxes_.at(cable.to_node()).centre) * 0.5;
      const auto pair = PairOf(cable);
      const double place = drawn_[pair]++ - (total_[pair] - 1) / 2.0;
      Label(between + DrawnPoint{0, place * 19}, CableLabel(cable),
            cable.state() == v1::RailState::up ? "" : " bad");
    }
    const DrawnPoint middle = SwitchAt(cable.switch_number());
    const std::pair<const std::string*, const std::string*> ends[] = {
        {&cable.from_node(), &cable.from_interface()}, {&cable.to_node(), &cable.to_interface()}};
    for (const auto& [id, interface] : ends) {
      if (!ports_.insert({*id, *interface}).second) continue;
      const Box& box = boxes_.at(*id);
      const Curve curve{box.centre, (box.centre + middle) * 0.5, middle};
      DrawCurve(cable, curve);
      LabelOn(curve, 0.45, *interface, " faint");
    }
  }

  void DrawCurve(const v1::TopologyCable& cable, const Curve& curve) {
    const std::string told =
        NodeNameIn(topology_, cable.from_node()) + " " + cable.from_interface() + " - " +
        cable.to_interface() + " " + NodeNameIn(topology_, cable.to_node()) + ": " +
        WordOf(cable.state()) + ", " +
        (cable.state() == v1::RailState::up ? CableFigures(cable) : cable.detail()) +
        (RailsOn(cable).empty() ? "" : "; " + RailsOn(cable));
    lines_ += std::string("<path class=\"") +
              (cable.state() == v1::RailState::up ? "cable" : "down") + "\" d=\"M" +
              Number(curve.a.x) + " " + Number(curve.a.y) + " Q" + Number(curve.bend.x) + " " +
              Number(curve.bend.y) + " " + Number(curve.b.x) + " " + Number(curve.b.y) +
              "\"><title>" + Escaped(told) + "</title></path>\n";
  }

  // Where the line has left the node's box by enough for a label.
  static double Leaving(const Curve& curve, const Box& box) {
    for (double t = 0.02; t < 0.4; t += 0.01) {
      const DrawnPoint off = curve.At(t) - curve.a;
      if (std::abs(off.x) > box.width / 2 + 22 || std::abs(off.y) > kNodeHeight / 2 + 14) return t;
    }
    return 0.4;
  }

  void DrawNode(const Box& box) {
    const v1::TopologyNode& node = *box.node;
    const bool own = node.name() == topology_.node();
    const bool silent = !own && node.state() == "up" && !node.answered();
    const bool well = node.state() == "up" && !silent;
    const std::string look = well ? (own ? "node own" : "node") : "node gone";
    nodes_ += "<rect class=\"" + look + "\" rx=\"10\" x=\"" + Number(box.centre.x - box.width / 2) +
              "\" y=\"" + Number(box.centre.y - kNodeHeight / 2) + "\" width=\"" +
              Number(box.width) + "\" height=\"" + Number(kNodeHeight) + "\"/>\n";
    nodes_ += Text(box.centre.x, box.centre.y - 2, "name", Short(node.name()));
    const std::string below = own      ? node.state() + ", this node"
                              : silent ? "does not answer"
                                       : node.state();
    nodes_ += Text(box.centre.x, box.centre.y + 16,
                   well ? "small centre faint" : "small centre bad", below);
  }

  static double LabelWidth(const std::string& text) {
    return kSmallCharacter * static_cast<double>(Short(text).size()) + 8;
  }

  bool IsFree(DrawnPoint at, double width) const {
    return std::none_of(taken_.begin(), taken_.end(), [at, width](const auto& other) {
      return std::abs(other.first.x - at.x) < (other.second + width) / 2 &&
             std::abs(other.first.y - at.y) < kLabelHeight;
    });
  }

  // At `where` of the curve, or a little further on, where no other label is.
  void LabelOn(const Curve& curve, double where, const std::string& text, const std::string& look) {
    constexpr double kStep = 0.03;
    constexpr double kFarthest = 0.24;
    DrawnPoint at = curve.At(where);
    for (double further = 0; further < kFarthest; further += kStep) {
      const DrawnPoint next = curve.At(where + further);
      if (!IsFree(next, LabelWidth(text))) continue;
      at = next;
      break;
    }
    Label(at, text, look);
  }

  void Label(DrawnPoint at, const std::string& text, const std::string& look) {
    const std::string shown = Short(text);
    if (shown.empty()) return;
    const double width = LabelWidth(text);
    taken_.emplace_back(at, width);
    labels_ += "<rect class=\"label\" opacity=\"0.85\" rx=\"4\" x=\"" + Number(at.x - width / 2) +
               "\" y=\"" + Number(at.y - 9) + "\" width=\"" + Number(width) + "\" height=\"" +
               Number(kLabelHeight) + "\"/>\n" + Text(at.x, at.y + 4, "small centre" + look, shown);
  }

  static std::string Text(double x, double y, const std::string& look, const std::string& text) {
    return "<text class=\"" + look + "\" x=\"" + Number(x) + "\" y=\"" + Number(y) + "\">" +
           Escaped(text) + "</text>\n";
  }

  std::string Legend() const {
    std::string text = topology_.ring_size() > 1
                           ? (topology_.ring_closed() ? "wide band: the ring"
                                                      : "wide band: ring order, not closed")
                           : "";
    const bool any_down =
        std::any_of(topology_.cables().begin(), topology_.cables().end(),
                    [](const auto& cable) { return cable.state() != v1::RailState::up; });
    if (any_down) text += std::string(text.empty() ? "" : "; ") + "dashed red: down";
    return text;
  }

  const v1::TopologyReply& topology_;
  std::map<std::string, Box> boxes_;  // By node id.
  std::map<std::pair<std::string, std::string>, int> total_;
  std::map<std::pair<std::string, std::string>, int> drawn_;
  std::set<std::pair<std::string, std::string>> ports_;
  std::vector<std::pair<DrawnPoint, double>> taken_;  // Labels' centres and widths.
  DrawnPoint middle_;
  double width_ = 0;
  double height_ = 0;
  double switches_ = 0;
  std::string ring_, lines_, nodes_, labels_;
};

std::string DotString(const std::string& text) {
  std::string out = "\"";
  for (const char c : Shown(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string DrawTopologySvg(const v1::TopologyReply& topology) { return Picture(topology).Draw(); }

std::string DrawTopologyDot(const v1::TopologyReply& topology) {
  std::string out = "graph topology {\n  layout=circo; overlap=false; splines=true;\n  label=" +
                    DotString(topology.cluster() + ": " + topology.shape()) +
                    ";\n  node [shape=box, style=rounded];\n";
  for (const v1::TopologyNode& node : topology.nodes()) {
    out += "  " + DotString(node.id()) + " [label=" + DotString(node.name()) +
           (node.name() == topology.node() ? ", penwidth=3" : "") +
           (node.state() == "up" ? "" : ", color=red, style=\"rounded,dashed\"") + "];\n";
  }
  std::set<std::pair<std::string, std::string>> ports;
  for (const v1::TopologyCable& cable : topology.cables()) {
    const std::string state = cable.state() == v1::RailState::up ? "" : ", color=red, style=dashed";
    if (cable.switch_number() > 0) {
      const std::string hub = DotString("switch " + std::to_string(cable.switch_number()));
      const std::pair<const std::string*, const std::string*> ends[] = {
          {&cable.from_node(), &cable.from_interface()}, {&cable.to_node(), &cable.to_interface()}};
      for (const auto& [id, interface] : ends) {
        if (!ports.insert({*id, *interface}).second) continue;
        out += "  " + DotString(*id) + " -- " + hub + " [taillabel=" + DotString(*interface) +
               state + "];\n";
      }
      continue;
    }
    out += "  " + DotString(cable.from_node()) + " -- " + DotString(cable.to_node()) +
           " [taillabel=" + DotString(cable.from_interface()) +
           ", headlabel=" + DotString(cable.to_interface()) +
           ", label=" + DotString(CableLabel(cable)) + state + "];\n";
  }
  return out + "}\n";
}

}  // namespace mlxcomm::ctl

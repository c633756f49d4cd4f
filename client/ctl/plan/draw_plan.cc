#include "client/ctl/plan/draw_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>
#include <tuple>
#include <utility>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/plan/render_plan.h"
#include "client/ctl/topology/draw_topology.h"

namespace mlxcomm::ctl {
namespace {

// More ranks than these are drawn as one box.
constexpr std::uint32_t kRankBoxesMax = 4;
// Arrows have figures only with few links, where these do not overlap.
constexpr int kLabelledLinksMax = 64;

std::string Number(std::uint64_t value) { return std::to_string(value); }
std::string BytesLabel(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string Head(const v1::PlanReply& plan) {
  std::string title =
      plan.operation() + ", " + BytesLabel(plan.bytes()) + " a rank\n" + DescribePlan(plan);
  if (plan.predicted_ns() > 0) title += "\npredicted " + HumanNanoseconds(plan.predicted_ns());
  return "digraph plan {\n  label=" + DotString(title) +
         ";\n  labelloc=t;\n  fontname=\"Helvetica\";\n"
         "  node [fontname=\"Helvetica\", fontsize=10, shape=box, style=filled, fillcolor=white];\n"
         "  edge [fontname=\"Helvetica\", fontsize=9];\n";
}

std::string OpenCluster(std::uint64_t node, const std::string& label) {
  return "  subgraph cluster_" + Number(node) + " {\n    label=" + DotString(label) +
         ";\n    style=\"rounded,filled\";\n    fillcolor=\"#eef3f8\";\n";
}

using Point = std::pair<double, double>;

// The first node at the top, the others clockwise, far enough apart.
Point PlaceOf(std::uint32_t node, const v1::PlanReply& plan) {
  if (plan.nodes() == 1) return {0, 0};
  const double width = 1.6 + 0.9 * std::min(plan.ranks_per_node(), kRankBoxesMax);
  const double radius = std::max(1.8, width * plan.nodes() / (2 * std::numbers::pi) * 1.25);
  const double turn = 2 * std::numbers::pi * node / plan.nodes();
  return {radius * std::sin(turn), radius * std::cos(turn)};
}

// The memory in which a node's ranks meet is drawn towards the middle of the circle, where the
// links are; its ranks, and its name, outwards.
std::string DrawNode(std::uint32_t node, const v1::PlanReply& plan) {
  const Point place = PlaceOf(node, plan);
  const double turn = 2 * std::numbers::pi * node / plan.nodes();
  const auto outwards = [&](double by, double across) {
    // Boxes are wider than high.
    return Point{place.first + 1.35 * by * std::sin(turn) + across * std::cos(turn),
                 place.second + 0.7 * by * std::cos(turn) - across * std::sin(turn)};
  };
  const std::uint32_t ranks = plan.ranks_per_node();
  const std::string memory = "m" + Number(node);
  std::string out =
      OpenCluster(node, "") + "    " + memory + " [label=\"shared memory\", " +
      "fillcolor=\"#d7e6f5\", " + DotAt(place) + "];\n    t" + Number(node) +
      " [shape=plaintext, style=\"\", fontsize=12, label=" + DotString("node " + Number(node)) +
      ", " + DotAt(outwards(1.75, 0)) + "];\n";
  const std::uint32_t boxes = ranks > kRankBoxesMax ? 1 : ranks;
  for (std::uint32_t i = 0; i < boxes; ++i) {
    const std::uint64_t first = std::uint64_t{node} * ranks + i;
    const std::string label = boxes == ranks
                                  ? "rank " + Number(first)
                                  : "ranks " + Number(first) + "-" + Number(first + ranks - 1);
    const std::string name = "r" + Number(first);
    out += "    " + name + " [label=" + DotString(label) + ", " +
           DotAt(outwards(1, 0.95 * (i - (boxes - 1) / 2.0))) + "];\n    " + name + " -> " +
           memory + " [dir=both, color=gray60, arrowsize=0.5];\n";
  }
  return out + "  }\n";
}

// One arrow with two heads where both directions carry as much.
std::string DrawLinks(const v1::PlanReply& plan) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;
  for (const v1::PlanLink& link : plan.links()) bytes[{link.from(), link.to()}] = link.bytes();
  std::string out;
  for (const auto& [ends, carried] : bytes) {
    const auto back = bytes.find({ends.second, ends.first});
    const bool both = back != bytes.end() && back->second == carried;
    if (both && ends.first > ends.second) continue;
    out += "  m" + Number(ends.first) + " -> m" + Number(ends.second) + " [color=\"#2060a0\"" +
           (both ? ", dir=both" : "");
    if (plan.links_size() <= kLabelledLinksMax) {
      out += ", label=" + DotString(BytesLabel(carried) + (both ? " each way" : ""));
    }
    out += "];\n";
  }
  return out;
}

const char* ColourOf(const std::string& kind) {
  if (kind == "send") return "#d7e6f5";
  if (kind == "receive") return "#d9efd9";
  if (kind == "reduce") return "#f8e3c8";
  return "#f4f4f4";
}

std::string StepName(std::uint64_t node, std::uint64_t step) {
  return "n" + Number(node) + "s" + Number(step);
}

}  // namespace

std::string DrawNodes(const v1::PlanReply& plan) {
  std::string out = Head(plan) + "  layout=neato;\n  splines=line;\n";
  for (std::uint32_t node = 0; node < plan.nodes(); ++node) out += DrawNode(node, plan);
  return out + DrawLinks(plan) + "}\n";
}

std::string DrawSteps(const v1::PlanReply& plan) {
  std::string out = Head(plan) + "  rankdir=TB;\n";
  // (from, to, tag) names a message on both sides.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::string> senders;
  std::string messages;
  for (const v1::PlanNode& node : plan.node_plans()) {
    for (int i = 0; i < node.steps_size(); ++i) {
      const v1::PlanStep& step = node.steps(i);
      if (step.kind() != "send") continue;
      senders[{node.node(), step.node(), step.tag()}] =
          StepName(node.node(), static_cast<std::uint64_t>(i));
    }
  }
  for (const v1::PlanNode& node : plan.node_plans()) {
    out += OpenCluster(node.node(), "node " + Number(node.node()));
    for (int i = 0; i < node.steps_size(); ++i) {
      const v1::PlanStep& step = node.steps(i);
      const std::string name = StepName(node.node(), static_cast<std::uint64_t>(i));
      out += "    " + name + " [label=" +
             DotString(Number(static_cast<std::uint64_t>(i)) + ": " + DescribeStep(step)) +
             ", fillcolor=\"" + ColourOf(step.kind()) + "\"" +
             (step.finishes() ? ", penwidth=2" : "") + "];\n";
      for (const std::uint32_t before : step.after()) {
        out += "    " + StepName(node.node(), before) + " -> " + name + " [color=gray60];\n";
      }
      if (step.kind() != "receive" && step.kind() != "reduce") continue;
      const auto sender = senders.find({step.node(), node.node(), step.tag()});
      if (sender == senders.end()) continue;  // Of a node that was left out.
      messages += "  " + sender->second + " -> " + name + " [color=\"#2060a0\", penwidth=1.5];\n";
    }
    out += "  }\n";
  }
  return out + messages + "}\n";
}

}  // namespace mlxcomm::ctl

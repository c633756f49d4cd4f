#include "client/ctl/plan/render_plan.h"

#include <cstdio>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/status/render_status.h"

namespace mlxcomm::ctl {
namespace {

// Of links that carry the same amount, the first few are listed.
constexpr int kPairsShownMax = 8;

std::string Bytes(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// Between several nodes.
std::string Way(const v1::PlanReply& plan) {
  const std::string nodes = Plural(plan.nodes(), "node");
  if (plan.plan() == "ring") {
    return (plan.nodes() > 2 ? "ring in both directions between " : "ring between ") + nodes;
  }
  if (plan.plan() == "exchange") {
    return "exchange, each message straight to its receiver, between " + nodes;
  }
  if (plan.plan() == "halving_doubling") return "halving and doubling between " + nodes;
  if (plan.plan() == "tree") return "binomial tree of " + nodes;
  return Shown(plan.plan()) + " between " + nodes;
}

std::string RenderChoice(const v1::PlanReply& plan) {
  std::string line = DescribePlan(plan);
  if (plan.predicted_ns() > 0) line += "; predicted " + HumanNanoseconds(plan.predicted_ns());
  if (plan.bus_bytes_per_second() > 0) {
    line += "; " + HumanRate(plan.bus_bytes_per_second()) + " bus bandwidth";
  }
  return line + "\n";
}

std::string RenderEstimates(const v1::PlanReply& plan) {
  if (plan.estimates_size() == 0) return {};
  const v1::LinkCosts& costs = plan.costs();
  std::string out = "a link: " + HumanNanoseconds(costs.latency_ns()) + " (" +
                    Shown(plan.latency_source()) + "), " + HumanRate(costs.bytes_per_second()) +
                    " each way (" + Shown(plan.bytes_per_second_source()) + "); " +
                    std::to_string(costs.links_per_node()) + " at once a node (" +
                    Shown(plan.links_per_node_source()) + ")\n\nplan              predicted\n";
  for (const v1::PlanEstimate& estimate : plan.estimates()) {
    char line[96];
    const bool chosen = estimate.plan() == plan.plan();
    std::snprintf(line, sizeof line, "%-17.17s %9s%s\n", Shown(estimate.plan()).c_str(),
                  HumanNanoseconds(estimate.predicted_ns()).c_str(),
                  !chosen         ? ""
                  : plan.forced() ? "  forced"
                                  : "  chosen");
    out += line;
  }
  return out;
}

std::string RenderLinks(const v1::PlanReply& plan) {
  if (plan.links_size() == 0) return {};
  // By what they carry, most first.
  using Load = std::pair<std::uint64_t, std::uint64_t>;
  std::map<Load, std::vector<const v1::PlanLink*>, std::greater<>> loads;
  for (const v1::PlanLink& link : plan.links()) {
    loads[{link.bytes(), link.messages()}].push_back(&link);
  }
  std::string out = "\nlinks between nodes, each direction by itself\n";
  for (const auto& [load, links] : loads) {
    const auto& [bytes, messages] = load;
    out += "  " + Bytes(bytes) + " in " + Plural(messages, "message") + ", on ";
    out += links.size() == 1 ? "" : "each of " + std::to_string(links.size()) + ": ";
    int shown = 0;
    for (const v1::PlanLink* const link : links) {
      if (shown++ == kPairsShownMax) break;
      out += (shown == 1 ? "" : ", ") + std::to_string(link->from()) + ">" +
             std::to_string(link->to());
    }
    out += links.size() > kPairsShownMax ? ", ...\n" : "\n";
  }
  return out;
}

std::string RenderTotals(const v1::PlanReply& plan) {
  return "\n" + Plural(plan.steps(), "step") + ", " + Plural(plan.messages(), "message") +
         ", at most " + Bytes(plan.scratch_bytes_max()) + " of the daemon's memory a node\n";
}

std::string PlaceText(const v1::PlanPlace& place) {
  std::string text = Shown(place.buffer());
  if (place.every_rank()) {
    text += " of all ranks";
  } else if (place.buffer() != "scratch") {
    text += " of rank " + std::to_string(place.rank());
  }
  return place.offset() == 0 ? text : text + " +" + std::to_string(place.offset());
}

// Where a step's data comes from and where it goes.
std::string PlacesText(const v1::PlanStep& step) {
  std::string text;
  if (step.has_source()) {
    text += (step.kind() == "reduce" ? "with " : "from ") + PlaceText(step.source());
    if (step.source_count() > 1) {
      text += " and " + std::to_string(step.source_count() - 1) + " more, " +
              std::to_string(step.source_stride()) + " apart";
    }
  }
  if (step.has_destination())
    text += (text.empty() ? "to " : " to ") + PlaceText(step.destination());
  return text;
}

std::string RenderSteps(const v1::PlanReply& plan) {
  std::string out;
  for (const v1::PlanNode& node : plan.node_plans()) {
    out += "\nnode " + std::to_string(node.node()) + ", " +
           Plural(static_cast<std::uint64_t>(node.ranks_size()), "rank");
    if (node.ranks_size() > 0) {
      out += " from rank " + std::to_string(node.ranks(0));
    }
    out += "\n";
    int number = 0;
    for (const v1::PlanStep& step : node.steps()) {
      char head[96];
      std::snprintf(head, sizeof head, "  %4d  %-34s", number++, DescribeStep(step).c_str());
      out += std::string(head) + "  " + PlacesText(step);
      for (int i = 0; i < step.after_size(); ++i) {
        out += (i == 0 ? "; after " : ", ") + std::to_string(step.after(i));
      }
      out += step.finishes() ? "; final\n" : "\n";
    }
  }
  if (plan.steps_left_out() > 0) {
    out += "\n" + Plural(plan.steps_left_out(), "step") + " of further nodes left out\n";
  }
  return out;
}

}  // namespace

std::string DescribePlan(const v1::PlanReply& plan) {
  if (plan.nodes() == 1) {
    return "one node: its " + Plural(plan.ranks_per_node(), "rank") +
           " in shared memory, no link is used";
  }
  const std::string way = Way(plan);
  return plan.ranks_per_node() > 1 ? "ranks of a node in shared memory, then " + way : way;
}

std::string DescribeStep(const v1::PlanStep& step) {
  const std::string size = Bytes(step.bytes());
  const std::string other = "node " + std::to_string(step.node());
  if (step.kind() == "send") return "send " + size + " to " + other;
  if (step.kind() == "receive") return "receive " + size + " from " + other;
  if (step.kind() == "reduce") return "reduce " + size + " from " + other;
  const bool combines = step.source_count() > 1 || step.source().every_rank();
  return (combines ? "combine " : "copy ") + size;
}

std::string RenderPlan(const v1::PlanReply& plan) {
  std::string out = Shown(plan.operation()) + ": " + Plural(plan.nodes(), "node") + ", " +
                    Plural(plan.ranks_per_node(), "rank") + " on each, " + Bytes(plan.bytes()) +
                    " a rank\n";
  return out + RenderChoice(plan) + RenderEstimates(plan) + RenderLinks(plan) + RenderTotals(plan) +
         RenderSteps(plan);
}

}  // namespace mlxcomm::ctl

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/plan/draw_plan.h"
#include "client/ctl/plan/render_plan.h"
#include "client/ctl/status/render_status.h"

namespace mlxcomm::ctl {
namespace {

struct PlanOptions {
  std::string socket_path;
  std::string operation;
  std::string data_type;  // Empty, as all below: the daemon's default.
  std::string reduce_operator;
  std::string plan;
  std::optional<std::uint64_t> bytes;
  std::uint32_t nodes = 0;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t root = 0;
  std::uint64_t latency_ns = 0;  // 0, as below: as the daemon has it.
  std::uint64_t bytes_per_second = 0;
  std::uint32_t links_per_node = 0;
  bool steps = false;
  bool json = false;
  bool dot = false;
};

// Shown by --help and completed; the daemon says what it takes.
constexpr char kPlans[] = "{ring,exchange,halving_doubling,tree,two_level}";
constexpr char kPlanned[] =
    "{all_reduce,reduce,reduce_scatter,broadcast,all_gather,all_gather_v,gather,scatter,all_to_all,"
    "all_to_all_v,send,barrier}";

v1::PlanRequest RequestOf(const PlanOptions& options) {
  v1::PlanRequest request;
  request.set_operation(options.operation);
  request.set_data_type(options.data_type);
  request.set_reduce_operator(options.reduce_operator);
  request.set_bytes(options.bytes.value_or(0));
  request.set_nodes(options.nodes);
  request.set_ranks_per_node(options.ranks_per_node);
  request.set_plan(options.plan);
  request.set_root(options.root);
  request.mutable_costs()->set_latency_ns(options.latency_ns);
  request.mutable_costs()->set_bytes_per_second(options.bytes_per_second);
  request.mutable_costs()->set_links_per_node(options.links_per_node);
  request.set_with_steps(options.steps);
  return request;
}

Failure TextOf(const PlanOptions& options, const v1::PlanReply& plan, std::string& text) {
  if (options.json) return ToJson(plan, text);
  text = options.dot ? (options.steps ? DrawSteps(plan) : DrawNodes(plan)) : RenderPlan(plan);
  return {};
}

int RunPlan(const PlanOptions& options) {
  if (!options.bytes && options.operation != "barrier") {
    std::fputs("mlxcommctl: --bytes is needed: what each rank passes, as 64M\n", stderr);
    return kExitUsage;
  }
  v1::PlanReply plan;
  std::string text;
  Failure failure = FetchPlan(options.socket_path, RequestOf(options), plan);
  if (failure.ok()) failure = TextOf(options, plan, text);
  // What is asked for wrongly is the command line's fault.
  if (failure.code == FailureCode::kInvalidArgument) return Fail(kExitUsage, failure.message);
  if (!failure.ok()) return ReportFailure(failure);
  if (const int code = WriteOut(text, "plan"); code != 0) return code;
  if (plan.verified()) return 0;
  return Fail(kExitFailed, absl::StrCat("not proved: ", plan.verdict()));
}

}  // namespace

Run AddPlan(CLI::App& plan, const Invocation&) {
  const auto made = std::make_shared<PlanOptions>();
  PlanOptions& options = *made;
  plan.add_option("--op", options.operation, "The operation")->required()->type_name(kPlanned);
  plan.add_option("--nodes", options.nodes, "How many nodes")->required();
  plan.add_option("--ranks-per-node", options.ranks_per_node, "How many ranks on each (1)");
  AddQuantity(plan, "--bytes", options.bytes, ParseBytes, "64M or 1.5G",
              "What each rank passes: all of it, or its block");
  plan.add_option("--dtype", options.data_type, "Type of the elements (float32)")
      ->type_name(kDataTypes);
  plan.add_option("--operator", options.reduce_operator, "How a reduction combines (sum)")
      ->type_name(kOperators);
  plan.add_option("--root", options.root, "Rank of the root, where there is one (0)");
  plan.add_option("--plan", options.plan, "Which way (the cheapest)")->type_name(kPlans);
  AddQuantity(plan, "--latency", options.latency_ns, ParseDuration, "30us",
              "Of a link, one way (as this node has it)");
  AddQuantity(plan, "--bandwidth", options.bytes_per_second, ParseRate, "4.5G",
              "Of a link, bytes a second each way (as this node has it)");
  plan.add_option("--links", options.links_per_node,
                  "Links that a node fills at once (as this node has it)");
  plan.add_flag("--steps", options.steps, "Every step of every node");
  CLI::Option* const json =
      plan.add_flag("--json", options.json, "For programs (PlanReply of diagnostics.proto)");
  plan.add_flag("--dot", options.dot, "A picture for Graphviz; with --steps one of the steps")
      ->excludes(json);
  plan.add_option("--socket", options.socket_path, "The daemon's Unix socket");
  return [made] { return RunPlan(*made); };
}

}  // namespace mlxcomm::ctl

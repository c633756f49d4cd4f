#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/plan/draw_plan.h"
#include "client/ctl/plan/plan_answer.h"
#include "client/ctl/plan/render_plan.h"
#include "client/ctl/status/render_status.h"
#include "proto/queue/dial.h"
#include "proto/types/operation.h"

namespace mlxcomm::ctl {
namespace {

// Shown by --help and completed; send and recv are one message.
std::string PlannedNames() {
  return kOperations.NamesWhere(",",
                                [](const OperationRow& row) { return !IsPointToPoint(row.value); });
}

// The costs of this node's links, where not all of them are given. Without a daemon, unless one is
// named, the defaults apply.
Failure FetchOwnCosts(const PlanOptions& options, v1::LinkCosts& own) {
  if (!NeedsOwnCosts(options)) return {};
  const Failure failure = FetchCosts(options.socket_path, own);
  const bool is_named = queue::SocketCandidates(options.socket_path).size() == 1;
  if (failure.code != FailureCode::kUnavailable || is_named) return failure;
  std::fprintf(stderr, "mlxcommctl: what links cost is the default, for no daemon tells: %s\n",
               failure.message.c_str());
  return {};
}

Failure TextOf(const PlanOptions& options, const v1::PlanReply& plan, std::string& text) {
  if (options.json) return ToJson(plan, text);
  text = options.dot ? (options.steps ? DrawSteps(plan) : DrawNodes(plan)) : RenderPlan(plan);
  return {};
}

int RunPlan(const PlanOptions& options) {
  const OperationRow* const row = kOperations.FindNamed(options.operation);
  if (!options.bytes && !(row != nullptr && IsEmpty(row->value))) {
    std::fputs("mlxcommctl: --bytes is needed: what each rank passes, as 64M\n", stderr);
    return kExitUsage;
  }
  // A wrong question is reported as such, whether there is a daemon or not.
  absl::Status status = ReadPlanQuestion(options, {}).status();
  if (!status.ok()) return Fail(kExitUsage, std::string(status.message()));
  v1::LinkCosts own;
  if (const Failure failure = FetchOwnCosts(options, own); !failure.ok())
    return ReportFailure(failure);
  v1::PlanReply plan;
  status = AnswerPlan(options, own, plan);
  if (!status.ok()) return Fail(kExitUsage, std::string(status.message()));
  std::string text;
  if (const Failure failure = TextOf(options, plan, text); !failure.ok())
    return ReportFailure(failure);
  return WriteOut(text, "plan");
}

}  // namespace

Run AddPlan(CLI::App& plan, const Invocation&) {
  const auto made = std::make_shared<PlanOptions>();
  PlanOptions& options = *made;
  plan.add_option("--op", options.operation, "The operation")
      ->required()
      ->type_name(OneOf(PlannedNames()));
  plan.add_option("--nodes", options.nodes, "How many nodes")->required();
  plan.add_option("--ranks-per-node", options.ranks_per_node, "How many ranks on each (1)");
  AddQuantity(plan, "--bytes", options.bytes, ParseBytes, "64M or 1.5G",
              "What each rank passes: all of it, or its block");
  plan.add_option("--dtype", options.data_type, "Type of the elements (float32)")
      ->type_name(OneOf(kDataTypes.Names(",")));
  plan.add_option("--operator", options.reduce_operator, "How a reduction combines (sum)")
      ->type_name(OneOf(kReduceOperators.Names(",")));
  plan.add_option("--root", options.root, "Rank of the root, where there is one (0)");
  plan.add_option("--plan", options.plan, "Which way (the cheapest)")
      ->type_name(OneOf(kPlanKinds.Names(",")));
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
  AddSocket(plan, options.socket_path);
  return [made] { return RunPlan(*made); };
}

}  // namespace mlxcomm::ctl

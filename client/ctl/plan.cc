#include <cerrno>
#include <cstdio>
#include <cstring>

#include "client/ctl/daemon_call.h"
#include "client/ctl/draw_plan.h"
#include "client/ctl/json_text.h"
#include "client/ctl/render_plan.h"
#include "client/ctl/render_status.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {
namespace {

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

int ExitCodeOf(const Failure& failure) {
  switch (failure.code) {
    case FailureCode::kInvalidArgument: return kExitUsage;
    case FailureCode::kUnavailable: return kExitNoDaemon;
    default: return kExitFailed;
  }
}

Failure TextOf(const PlanOptions& options, const v1::PlanReply& plan, std::string& text) {
  if (options.json) return ToJson(plan, text);
  text = options.dot ? (options.steps ? DrawSteps(plan) : DrawNodes(plan)) : RenderPlan(plan);
  return {};
}

}  // namespace

int RunPlan(const PlanOptions& options) {
  if (!options.bytes && options.operation != "barrier") {
    std::fputs("mlxcommctl: --bytes is needed: what each rank passes, as 64M\n", stderr);
    return kExitUsage;
  }
  v1::PlanReply plan;
  std::string text;
  Failure failure = FetchPlan(options.socket_path, RequestOf(options), plan);
  if (failure.ok()) failure = TextOf(options, plan, text);
  if (!failure.ok()) {
    std::fprintf(stderr, "mlxcommctl: %s\n", Shown(failure.message).c_str());
    return ExitCodeOf(failure);
  }
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "mlxcommctl: cannot write the plan: %s\n", std::strerror(errno));
    return kExitFailed;
  }
  if (plan.verified()) return 0;
  std::fprintf(stderr, "mlxcommctl: not proved: %s\n", Shown(plan.verdict()).c_str());
  return kExitFailed;
}

}  // namespace mlxcomm::ctl

#include "client/ctl/plan/plan_answer.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/collective/cost_model.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::ctl {
namespace {

using collective::GroupLayout;
using collective::Plan;
using collective::Step;
using collective::StepKind;
using collective::WholeOperation;

std::uint64_t StepCount(const std::vector<Plan>& plans) {
  std::uint64_t steps = 0;
  for (const Plan& plan : plans) steps += plan.steps.size();
  return steps;
}

// Node by node, so that too large a plan is noticed before all of it is made.
absl::StatusOr<std::vector<Plan>> MakeBoundedPlans(const WholeOperation& operation) {
  std::vector<Plan> plans;
  std::uint64_t steps = 0;
  const std::uint16_t nodes = operation.LayoutAt(0).node_count();
  for (std::uint16_t node = 0; node < nodes; ++node) {
    plans.push_back(collective::MakePlanOf(operation, node));
    steps += plans.back().steps.size();
    if (steps <= kPlanStepsMax) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(operation.signature.Describe(), " of ", operation.size(), " ranks on ", nodes,
                     " nodes takes more than ", kPlanStepsMax,
                     " steps, which is the most that is planned: ask for fewer nodes or ranks"));
  }
  return plans;
}

class ReplyWriter {
 public:
  ReplyWriter(const PlanOptions& options, const WholeOperation& operation,
              const std::vector<Plan>& plans, v1::PlanReply& reply)
      : options_(options),
        operation_(operation),
        plans_(plans),
        layout_(operation.LayoutAt(0)),
        reply_(reply) {}

  void Write() {
    WriteChoice();
    WriteEstimates();
    WriteLinks();
    if (options_.steps) WriteSteps();
  }

 private:
  PlanKind chosen() const { return plans_.front().between_nodes; }

  void WriteChoice() {
    // The count of a table is in the question alone.
    collective::Signature shown = operation_.signature;
    shown.plan = PlanKind::kAutomatic;
    reply_.set_operation(shown.Describe());
    reply_.set_bytes(options_.bytes.value_or(0));
    reply_.set_nodes(options_.nodes);
    reply_.set_ranks_per_node(options_.ranks_per_node);
    reply_.set_forced(operation_.signature.plan == chosen() && options_.nodes > 1);
    if (options_.nodes > 1) reply_.set_plan(PlanKindName(chosen()));
    reply_.set_steps(StepCount(plans_));
    std::uint64_t scratch = 0;
    for (const Plan& plan : plans_) scratch = std::max(scratch, plan.scratch_bytes);
    reply_.set_scratch_bytes_max(scratch);
  }

  void WriteEstimates() {
    if (options_.nodes == 1) return;
    std::vector<std::span<const std::uint64_t>> counts(operation_.counts.begin(),
                                                       operation_.counts.end());
    collective::Traffic traffic = collective::TrafficOf(
        {operation_.signature, layout_, operation_.costs, operation_.ends, counts});
    // No node knows the others' counts; here they are all equal.
    if (CountsPerRank(operation_.signature.kind) == 2) traffic.bytes = options_.bytes.value_or(0);
    std::vector<std::pair<std::uint64_t, PlanKind>> estimates;
    for (const PlanKind plan : collective::PlansFor(operation_.signature.kind, layout_)) {
      estimates.emplace_back(collective::EstimatedNs(traffic, plan, operation_.costs), plan);
    }
    std::stable_sort(estimates.begin(), estimates.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [ns, plan] : estimates) {
      v1::PlanEstimate& estimate = *reply_.add_estimates();
      estimate.set_plan(PlanKindName(plan));
      estimate.set_predicted_ns(ns);
      if (plan == chosen()) reply_.set_predicted_ns(ns);
    }
    WriteBusBandwidth();
  }

  void WriteBusBandwidth() {
    if (reply_.predicted_ns() == 0) return;
    const OperationKind kind = operation_.signature.kind;
    double bytes =
        static_cast<double>(options_.bytes.value_or(0)) * RingLoad(kind, operation_.size());
    if (HasBlocks(kind) || HasCounts(kind)) bytes *= operation_.size();  // For all ranks together.
    const double seconds = static_cast<double>(reply_.predicted_ns()) / 1e9;
    reply_.set_bus_bytes_per_second(static_cast<std::uint64_t>(bytes / seconds));
  }

  void WriteLinks() {
    struct Load {
      std::uint64_t bytes = 0;
      std::uint64_t messages = 0;
    };
    std::map<std::pair<std::uint32_t, std::uint32_t>, Load> loads;
    for (std::uint32_t node = 0; node < plans_.size(); ++node) {
      for (const Step& step : plans_[node].steps) {
        if (step.kind != StepKind::kSend) continue;
        Load& load = loads[{node, step.node}];
        load.bytes += step.bytes;
        ++load.messages;
        reply_.set_messages(reply_.messages() + 1);
      }
    }
    for (const auto& [ends, load] : loads) {
      v1::PlanLink& link = *reply_.add_links();
      link.set_from(ends.first);
      link.set_to(ends.second);
      link.set_bytes(load.bytes);
      link.set_messages(load.messages);
    }
  }

  void WritePlace(std::uint32_t node, const collective::Place& place, v1::PlanPlace& told) const {
    using Side = collective::Place::Side;
    told.set_buffer(place.side == Side::kInput    ? "input"
                    : place.side == Side::kOutput ? "output"
                                                  : "scratch");
    told.set_offset(place.offset);
    if (place.side == Side::kScratch) return;
    const auto& ranks = layout_.ranks_on(static_cast<std::uint16_t>(node));
    if (place.local_rank == collective::Place::kEveryLocalRank) {
      told.set_every_rank(true);
    } else {
      told.set_rank(ranks[static_cast<std::size_t>(place.local_rank)]);
    }
  }

  void WriteStep(std::uint32_t node, const Plan& plan, const Step& step, v1::PlanStep& told) const {
    static constexpr const char* kNames[] = {"local", "send", "receive", "reduce"};
    told.set_kind(kNames[static_cast<std::size_t>(step.kind)]);
    told.set_node(step.kind == StepKind::kLocal ? node : step.node);
    told.set_tag(step.tag);
    told.set_bytes(step.bytes);
    told.set_finishes(step.finishes);
    for (const std::int32_t before : plan.AfterOf(step)) {
      told.add_after(static_cast<std::uint32_t>(before));
    }
    if (step.kind != StepKind::kReceive) WritePlace(node, step.source, *told.mutable_source());
    if (step.kind != StepKind::kSend) {
      WritePlace(node, step.destination, *told.mutable_destination());
    }
    if (step.kind != StepKind::kLocal) return;
    told.set_source_count(step.source_count);
    told.set_source_stride(step.source_stride);
  }

  void WriteSteps() {
    std::uint64_t listed = 0;
    for (std::uint32_t node = 0; node < plans_.size(); ++node) {
      const Plan& plan = plans_[node];
      if (listed + plan.steps.size() > kPlanStepsListedMax) break;
      listed += plan.steps.size();
      v1::PlanNode& told = *reply_.add_node_plans();
      told.set_node(node);
      for (const std::uint32_t rank : layout_.ranks_on(static_cast<std::uint16_t>(node))) {
        told.add_ranks(rank);
      }
      for (const Step& step : plan.steps) WriteStep(node, plan, step, *told.add_steps());
    }
    reply_.set_steps_left_out(reply_.steps() - listed);
  }

  const PlanOptions& options_;
  const WholeOperation& operation_;
  const std::vector<Plan>& plans_;
  GroupLayout layout_;
  v1::PlanReply& reply_;
};

}  // namespace

absl::Status AnswerPlan(const PlanOptions& options, const v1::LinkCosts& own,
                        v1::PlanReply& reply) {
  const PlanCosts costs = ChooseCosts(options, own);
  const absl::StatusOr<WholeOperation> operation = ReadPlanQuestion(options, costs.costs);
  if (!operation.ok()) return operation.status();
  const absl::StatusOr<std::vector<Plan>> plans = MakeBoundedPlans(*operation);
  if (!plans.ok()) return plans.status();
  reply.mutable_costs()->set_latency_ns(costs.costs.latency_ns);
  reply.mutable_costs()->set_bytes_per_second(costs.costs.bytes_per_second);
  reply.mutable_costs()->set_links_per_node(costs.costs.links_per_node);
  reply.set_latency_source(costs.latency_source);
  reply.set_bytes_per_second_source(costs.bytes_per_second_source);
  reply.set_links_per_node_source(costs.links_per_node_source);
  ReplyWriter(options, *operation, *plans, reply).Write();
  return absl::OkStatus();
}

}  // namespace mlxcomm::ctl

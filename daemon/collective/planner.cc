// The table of plans/plans.h as data: which planner serves which operation, and its cost.
#include <array>
#include <limits>

#include "daemon/collective/plan.h"
#include "daemon/collective/plans/estimate.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

bool Always(const GroupLayout&) { return true; }
bool FitsSlots(const GroupLayout& layout) { return layout.node_count() <= kLocalRanksMax; }

struct Planner {
  OperationKind kind;
  PlanKind plan;
  void (*fill)(const PlanRequest&, Plan&);
  bool (*fits)(const GroupLayout&);
  std::uint64_t (Estimate::*cost)() const;
};

// The first of equal cost is chosen (with two nodes, halving is a ring).
//
// clang-format off: one row per line.
constexpr auto kPlanners = [] {
  using enum OperationKind;
  using enum PlanKind;
  using Cost = Estimate;
  return std::to_array<Planner>({
      {kAllReduce, kExchange, ExchangeAllReduce, FitsSlots, &Cost::ExchangeAllReduce},
      {kAllReduce, kTree, TreeAllReduce, Always, &Cost::TreeAllReduce},
      {kAllReduce, kRing, RingAllReduce, Always, &Cost::RingAllReduce},
      {kAllReduce, kHalvingDoubling, HalvingDoublingAllReduce, Always, &Cost::HalvingDoublingAllReduce},
      {kReduceScatter, kExchange, ExchangeReduceScatter, FitsSlots, &Cost::ExchangeReduceScatter},
      {kReduceScatter, kRing, RingReduceScatter, Always, &Cost::RingReduceScatter},
      {kReduceScatter, kHalvingDoubling, HalvingReduceScatter, CanHalve, &Cost::HalvingReduceScatter},
      {kAllGather, kExchange, ExchangeAllGather, Always, &Cost::ExchangeBlocks},
      {kAllGather, kRing, RingAllGather, Always, &Cost::RingAllGather},
      {kAllGather, kHalvingDoubling, DoublingAllGather, CanHalve, &Cost::DoublingAllGather},
      {kAllGatherV, kExchange, ExchangeAllGather, Always, &Cost::ExchangeBlocks},
      {kAllGatherV, kRing, RingAllGather, Always, &Cost::RingAllGather},
      {kAllGatherV, kHalvingDoubling, DoublingAllGather, CanHalve, &Cost::DoublingAllGather},
      {kBroadcast, kExchange, ExchangeBroadcast, Always, &Cost::ExchangeBroadcast},
      {kBroadcast, kTree, TreeBroadcast, Always, &Cost::TreeBroadcast},
      {kBroadcast, kRing, RingBroadcast, Always, &Cost::RingBroadcast},
      {kReduce, kExchange, ExchangeReduce, FitsSlots, &Cost::ExchangeReduce},
      {kReduce, kTree, TreeReduce, Always, &Cost::TreeReduce},
      {kReduce, kRing, RingReduce, Always, &Cost::RingReduce},
      {kAllToAll, kExchange, ExchangeAllToAll, Always, &Cost::OnlyPlan},
      {kAllToAllV, kExchange, ExchangeAllToAll, Always, &Cost::OnlyPlan},
      {kGather, kExchange, ExchangeGather, Always, &Cost::ExchangeBlocks},
      {kGather, kTree, TreeGather, Always, &Cost::TreeBlocks},
      {kScatter, kExchange, ExchangeScatter, Always, &Cost::ExchangeBlocks},
      {kScatter, kTree, TreeScatter, Always, &Cost::TreeBlocks},
  });
}();
// clang-format on

// A barrier is an all_reduce of nothing: no rank's last step precedes any rank's first.
OperationKind PlannedAs(OperationKind kind) {
  return IsEmpty(kind) ? OperationKind::kAllReduce : kind;
}

const Planner* Find(OperationKind kind, PlanKind plan, const GroupLayout& layout) {
  for (const Planner& planner : kPlanners) {
    if (planner.kind == PlannedAs(kind) && planner.plan == plan) {
      return planner.fits(layout) ? &planner : nullptr;
    }
  }
  return nullptr;
}

Traffic TrafficOf(const PlanRequest& request) {
  const Signature& signature = request.signature;
  Traffic traffic{.kind = PlannedAs(signature.kind),
                  .nodes = request.layout.node_count(),
                  .ranks = request.layout.rank_count(),
                  .bytes = signature.count * DataTypeBytes(signature.type)};
  const OperationRow& row = RowOf(signature.kind);
  const bool to_each = row.input.extent == Extent::kBlocks;
  const bool from_each = row.output.extent == Extent::kBlocks;
  if (to_each != from_each) traffic.bytes *= traffic.ranks;
  if (IsEmpty(signature.kind) || HasCounts(signature.kind)) traffic.bytes = 0;
  if (CountsPerRank(signature.kind) == 1) {
    for (const std::uint64_t count : request.counts.front()) {
      traffic.bytes += count * DataTypeBytes(signature.type);
    }
  }
  return traffic;
}

}  // namespace

bool OffersPlan(OperationKind kind, PlanKind plan, const GroupLayout& layout) {
  return layout.node_count() > 1 && Find(kind, plan, layout) != nullptr;
}

PlanKind ChoosePlan(const PlanRequest& request) {
  if (request.layout.node_count() == 1 || IsPointToPoint(request.signature.kind)) {
    return PlanKind::kAutomatic;
  }
  const Traffic traffic = TrafficOf(request);
  const Estimate estimate(traffic, request.costs);
  PlanKind best = PlanKind::kAutomatic;
  std::uint64_t best_ns = std::numeric_limits<std::uint64_t>::max();
  for (const Planner& planner : kPlanners) {
    if (planner.kind != traffic.kind || !planner.fits(request.layout)) continue;
    const std::uint64_t ns = (estimate.*planner.cost)();
    if (ns >= best_ns) continue;
    best = planner.plan;
    best_ns = ns;
  }
  return best;
}

void MakePlan(const PlanRequest& request, Plan& plan) {
  plan.Clear();
  const OperationKind kind = request.signature.kind;
  const GroupLayout& layout = request.layout;
  if (IsPointToPoint(kind)) return PointToPointPlan(request, plan);
  Signature signature = request.signature;
  if (IsEmpty(kind)) signature.count = 0;
  PlanRequest planned{signature,      layout,           request.costs,     request.ends,
                      request.counts, request.in_place, request.chosen_for};
  if (layout.node_count() == 1) {
    if (Reduces(PlannedAs(kind))) return OneNodeReduction(planned, plan);
    return Find(kind, PlanKind::kExchange, layout)->fill(planned, plan);
  }
  plan.between_nodes =
      OffersPlan(kind, signature.plan, layout) ? signature.plan : ChoosePlan(request);
  Find(kind, plan.between_nodes, layout)->fill(planned, plan);
}

}  // namespace mlxcomm::collective

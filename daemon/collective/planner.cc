// Which planner serves which operation: the table of plans/plans.h as data.
#include <limits>

#include "daemon/collective/plan.h"
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
};

// Of two that cost the same, the first is taken (of two nodes, halving is a ring).
constexpr Planner kPlanners[] = {
    {OperationKind::kAllReduce, PlanKind::kExchange, ExchangeAllReduce, FitsSlots},
    {OperationKind::kAllReduce, PlanKind::kTree, TreeAllReduce, Always},
    {OperationKind::kAllReduce, PlanKind::kRing, RingAllReduce, Always},
    {OperationKind::kAllReduce, PlanKind::kHalvingDoubling, HalvingDoublingAllReduce, Always},
    {OperationKind::kReduceScatter, PlanKind::kExchange, ExchangeReduceScatter, FitsSlots},
    {OperationKind::kReduceScatter, PlanKind::kRing, RingReduceScatter, Always},
    {OperationKind::kReduceScatter, PlanKind::kHalvingDoubling, HalvingReduceScatter, CanHalve},
    {OperationKind::kAllGather, PlanKind::kExchange, ExchangeAllGather, Always},
    {OperationKind::kAllGather, PlanKind::kRing, RingAllGather, Always},
    {OperationKind::kAllGather, PlanKind::kHalvingDoubling, DoublingAllGather, CanHalve},
    {OperationKind::kAllGatherV, PlanKind::kExchange, ExchangeAllGather, Always},
    {OperationKind::kAllGatherV, PlanKind::kRing, RingAllGather, Always},
    {OperationKind::kAllGatherV, PlanKind::kHalvingDoubling, DoublingAllGather, CanHalve},
    {OperationKind::kBroadcast, PlanKind::kExchange, ExchangeBroadcast, Always},
    {OperationKind::kBroadcast, PlanKind::kTree, TreeBroadcast, Always},
    {OperationKind::kBroadcast, PlanKind::kRing, RingBroadcast, Always},
    {OperationKind::kReduce, PlanKind::kExchange, ExchangeReduce, FitsSlots},
    {OperationKind::kReduce, PlanKind::kTree, TreeReduce, Always},
    {OperationKind::kReduce, PlanKind::kRing, RingReduce, Always},
    {OperationKind::kAllToAll, PlanKind::kExchange, ExchangeAllToAll, Always},
    {OperationKind::kAllToAllV, PlanKind::kExchange, ExchangeAllToAll, Always},
    {OperationKind::kGather, PlanKind::kExchange, ExchangeGather, Always},
    {OperationKind::kGather, PlanKind::kTree, TreeGather, Always},
    {OperationKind::kScatter, PlanKind::kExchange, ExchangeScatter, Always},
    {OperationKind::kScatter, PlanKind::kTree, TreeScatter, Always},
};

// A barrier is planned as an all_reduce: nobody's last step comes before everybody's first.
OperationKind PlannedAs(OperationKind kind) {
  return kind == OperationKind::kBarrier ? OperationKind::kAllReduce : kind;
}

const Planner* Find(OperationKind kind, PlanKind plan, const GroupLayout& layout) {
  for (const Planner& planner : kPlanners) {
    if (planner.kind == PlannedAs(kind) && planner.plan == plan) {
      return planner.fits(layout) ? &planner : nullptr;
    }
  }
  return nullptr;
}

}  // namespace

Traffic TrafficOf(const PlanRequest& request) {
  const Signature& signature = request.signature;
  Traffic traffic;
  traffic.kind = PlannedAs(signature.kind);
  traffic.nodes = request.layout.node_count();
  traffic.ranks = request.layout.rank_count();
  traffic.bytes = signature.count * DataTypeBytes(signature.type);
  switch (signature.kind) {
    case OperationKind::kAllGatherV:
      traffic.bytes = 0;
      for (const std::uint64_t count : request.counts.front()) {
        traffic.bytes += count * DataTypeBytes(signature.type);
      }
      break;
    case OperationKind::kReduceScatter:
    case OperationKind::kAllGather:
    case OperationKind::kGather:
    case OperationKind::kScatter: traffic.bytes *= traffic.ranks; break;
    case OperationKind::kBarrier: traffic.bytes = 0; break;
    default: break;
  }
  return traffic;
}

bool OffersPlan(OperationKind kind, PlanKind plan, const GroupLayout& layout) {
  return layout.node_count() > 1 && Find(kind, plan, layout) != nullptr;
}

PlanKind ChoosePlan(const PlanRequest& request) {
  if (request.layout.node_count() == 1 || IsPointToPoint(request.signature.kind)) {
    return PlanKind::kAutomatic;
  }
  const Traffic traffic = TrafficOf(request);
  PlanKind best = PlanKind::kAutomatic;
  std::uint64_t best_ns = std::numeric_limits<std::uint64_t>::max();
  for (const Planner& planner : kPlanners) {
    if (planner.kind != traffic.kind || !planner.fits(request.layout)) continue;
    const std::uint64_t ns = EstimatedNs(traffic, planner.plan, request.costs);
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
  if (kind == OperationKind::kBarrier) signature.count = 0;
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

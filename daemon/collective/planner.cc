// Which plan serves which operation. Between nodes there is the ring; within a
// node the ring's local steps are all there is.
#include "daemon/collective/plan.h"
#include "daemon/collective/plan_planners.h"

namespace mlxcomm::collective {

void MakePlan(const PlanRequest& request, Plan& plan) {
  const Signature& signature = request.signature;
  const GroupLayout& layout = request.layout;
  plan.Clear();
  switch (signature.kind) {
    case OperationKind::kAllReduce:
      return PlanRingAllReduce(signature, layout, plan);
    case OperationKind::kBarrier: {
      // An all-reduce of nothing: nobody's last step comes before everybody's first.
      Signature nothing = signature;
      nothing.count = 0;
      return PlanRingAllReduce(nothing, layout, plan);
    }
    case OperationKind::kAllGather:
      return PlanRingAllGather(signature, layout, plan);
    case OperationKind::kSend:
    case OperationKind::kReceive:
      return PlanPointToPoint(signature, layout, request.ends, plan);
    default: return;
  }
}

}  // namespace mlxcomm::collective

#include "daemon/collective/plan_planners.h"

namespace mlxcomm::collective {

void PlanPointToPoint(const Signature& signature, const GroupLayout& layout,
                      const PointToPoint& ends, Plan& plan) {
  const int source = layout.LocalIndexOf(ends.source_rank);
  const int destination = layout.LocalIndexOf(ends.destination_rank);
  Step step;
  step.bytes = signature.count * DataTypeBytes(signature.type);
  step.source = {Place::Side::kInput, source, 0};
  step.destination = {Place::Side::kOutput, destination, 0};
  if (source >= 0 && destination >= 0) {
    step.kind = StepKind::kLocal;
  } else if (source >= 0) {
    step.kind = StepKind::kSend;
    step.node = layout.node_of(ends.destination_rank);
  } else {
    step.kind = StepKind::kReceive;
    step.node = layout.node_of(ends.source_rank);
  }
  plan.Add(step);
}

}  // namespace mlxcomm::collective

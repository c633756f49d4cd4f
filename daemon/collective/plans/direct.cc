// Plans without an algorithm: a single node, and point-to-point.
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {

void OneNodeReduction(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const OperationKind kind = request.signature.kind;
  if (!HasBlocks(kind)) {
    const Place to = IsToRoot(kind) ? OutputOf(writer.RootLocal(), 0) : Everyones(OutputOf(0, 0));
    writer.Finish(writer.Combine(0, to, writer.bytes()));
    return;
  }
  for (const std::uint32_t rank : writer.layout().local_ranks()) {
    const Place to = OutputOf(writer.layout().LocalIndexOf(rank), 0);
    writer.Finish(writer.Combine(rank * writer.bytes(), to, writer.bytes()));
  }
}

void PointToPointPlan(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const std::uint32_t from = request.ends.source_rank;
  const std::uint32_t to = request.ends.destination_rank;
  const int source = writer.layout().LocalIndexOf(from);
  const int destination = writer.layout().LocalIndexOf(to);
  if (source >= 0 && destination >= 0) {
    writer.Copy(InputOf(source, 0), OutputOf(destination, 0), writer.bytes());
  } else if (source >= 0) {
    writer.Send(writer.layout().node_of(to), 0, InputOf(source, 0), writer.bytes());
  } else if (destination >= 0) {
    writer.Receive(writer.layout().node_of(from), 0, OutputOf(destination, 0), writer.bytes());
  }
}

}  // namespace mlxcomm::collective

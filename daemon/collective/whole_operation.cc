#include "daemon/collective/whole_operation.h"

#include <span>

#include "absl/strings/str_cat.h"

namespace mlxcomm::collective {

void WholeOperation::SetCount(std::uint64_t count) {
  const std::uint64_t length = CountsLength(signature.kind, size());
  signature.count = length == 0 ? count : 0;
  const std::size_t tables = CountsPerRank(signature.kind) == 2 ? size() : 1;
  counts.assign(length == 0 ? 0 : tables, std::vector<std::uint64_t>(length, count));
}

GroupLayout WholeOperation::LayoutAt(std::uint16_t node) const {
  const GroupLayout any(members, members.front().node);
  return GroupLayout(members, any.node(node));
}

OperationShape WholeOperation::ShapeAt(std::uint32_t rank) const {
  ShapeRequest request;
  request.kind = signature.kind;
  request.count = signature.count;
  request.rank = rank;
  request.size = size();
  request.root = signature.root;
  const std::uint32_t tables = CountsPerRank(signature.kind);
  if (tables > 0) request.counts = tables == 1 ? counts.front() : counts[rank];
  OperationShape shape;
  if (!ShapeOf(request, shape)) return {};
  if (!IsPointToPoint(signature.kind)) return shape;
  // Both ends of the operation at once.
  shape.reads = rank == ends.source_rank;
  shape.writes = rank == ends.destination_rank;
  shape.input_elements = shape.reads ? signature.count : 0;
  shape.output_elements = shape.writes ? signature.count : 0;
  return shape;
}

std::uint64_t WholeOperation::InputBytes(std::uint32_t rank) const {
  return ShapeAt(rank).input_elements * element_bytes();
}

std::uint64_t WholeOperation::OutputBytes(std::uint32_t rank) const {
  return ShapeAt(rank).output_elements * element_bytes();
}

std::string WholeOperation::Describe(std::uint16_t node, std::size_t index,
                                     const Step& step) const {
  std::string text = absl::StrCat("node ", node, ": step ", index, " (");
  switch (step.kind) {
    case StepKind::kLocal: absl::StrAppend(&text, "local, ", step.bytes, " bytes)"); break;
    case StepKind::kSend:
      absl::StrAppend(&text, "send ", step.bytes, " bytes to node ", step.node, ", tag ", step.tag,
                      ")");
      break;
    case StepKind::kReceive:
    case StepKind::kReduceReceived:
      absl::StrAppend(&text, step.kind == StepKind::kReceive ? "receive " : "reduce ", step.bytes,
                      " bytes from node ", step.node, ", tag ", step.tag, ")");
      break;
  }
  return text;
}

Plan MakePlanOf(const WholeOperation& operation, std::uint16_t node) {
  const GroupLayout layout = operation.LayoutAt(node);
  std::vector<std::span<const std::uint64_t>> counts;
  const std::uint32_t tables = CountsPerRank(operation.signature.kind);
  if (tables == 1) {
    counts.push_back(operation.counts.front());
  } else if (tables == 2) {
    for (const std::uint32_t rank : layout.local_ranks()) counts.push_back(operation.counts[rank]);
  }
  Plan plan;
  MakePlan({operation.signature, layout, operation.costs, operation.ends, counts,
            operation.in_place, operation.chosen_for},
           plan);
  return plan;
}

std::vector<Plan> MakePlans(const WholeOperation& operation) {
  const std::uint16_t nodes = operation.LayoutAt(0).node_count();
  std::vector<Plan> plans(nodes);
  for (std::uint16_t node = 0; node < nodes; ++node) {
    plans[node] = MakePlanOf(operation, node);
  }
  return plans;
}

}  // namespace mlxcomm::collective

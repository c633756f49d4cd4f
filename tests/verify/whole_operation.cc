#include "tests/verify/whole_operation.h"

#include <span>

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

}  // namespace mlxcomm::collective

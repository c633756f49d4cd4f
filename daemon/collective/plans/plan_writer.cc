#include "daemon/collective/plans/plan_writer.h"

#include "proto/types/invariant.h"

namespace mlxcomm::collective {

PlanWriter::PlanWriter(const PlanRequest& request, Plan& plan)
    : layout_(request.layout),
      plan_(plan),
      count_(request.signature.count),
      element_bytes_(DataTypeBytes(request.signature.type)),
      root_(request.signature.root),
      in_place_(request.in_place) {
  MLXCOMM_INVARIANT(layout_.self() < layout_.node_count());
  MLXCOMM_INVARIANT(root_ < layout_.rank_count());
}

std::int32_t PlanWriter::CombineSlots(const Place& first, std::uint64_t stride,
                                      const Place& destination, std::uint64_t bytes,
                                      std::span<const std::int32_t> before) {
  return plan_.Add({.finishes = true,
                    .source = first,
                    .destination = destination,
                    .bytes = bytes,
                    .source_count = static_cast<std::uint32_t>(nodes()),
                    .source_stride = stride},
                   before);
}

PlanWriter::Value PlanWriter::Contribution(std::uint64_t offset, const Place& work,
                                           std::uint64_t bytes, Before before) {
  if (!several_local()) return {InputOf(0, offset), Step::kNone};
  return {work, Combine(offset, work, bytes, before)};
}

Step PlanWriter::Exchange(StepKind kind, int node, std::uint64_t tag, std::uint64_t bytes) const {
  MLXCOMM_INVARIANT(node != self() && tag <= UINT16_MAX);
  return {.kind = kind,
          .tag = static_cast<std::uint16_t>(tag),
          .node = static_cast<std::uint16_t>(node),
          .bytes = bytes};
}

std::int32_t PlanWriter::SendAfterAll(int node, std::uint64_t tag, const Place& source,
                                      std::uint64_t bytes, std::span<const std::int32_t> before) {
  Step step = Exchange(StepKind::kSend, node, tag, bytes);
  step.source = source;
  return plan_.Add(step, before);
}

std::int32_t PlanWriter::Receive(int node, std::uint64_t tag, const Place& destination,
                                 std::uint64_t bytes, Before before) {
  Step step = Exchange(StepKind::kReceive, node, tag, bytes);
  step.destination = destination;
  return plan_.Add(step, before);
}

std::int32_t PlanWriter::ReduceReceived(int node, std::uint64_t tag, const Place& operand,
                                        const Place& destination, std::uint64_t bytes,
                                        Before before) {
  const std::int32_t index = Receive(node, tag, destination, bytes, before);
  Step& step = plan_.steps[static_cast<std::size_t>(index)];
  step.kind = StepKind::kReduceReceived;
  step.source = operand;
  return index;
}

void PlanWriter::Deliver(std::uint64_t offset, std::uint64_t bytes, std::int32_t after) {
  if (!several_local()) return;
  Copy(OutputOf(0, offset), Everyones(OutputOf(0, offset)), bytes, {after});
}

std::int32_t PlanWriter::Finish(std::int32_t step) {
  plan_.steps[static_cast<std::size_t>(step)].finishes = true;
  return step;
}

}  // namespace mlxcomm::collective

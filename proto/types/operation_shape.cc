#include "proto/types/operation_shape.h"

namespace mlxcomm {
namespace {

bool Sum(std::span<const std::uint64_t> counts, std::uint64_t& sum) {
  sum = 0;
  for (const std::uint64_t count : counts) {
    if (count > kElementsMax || sum + count > kElementsMax) return false;
    sum += count;
  }
  return true;
}

// False if there are more than kElementsMax.
bool Measure(Extent extent, const ShapeRequest& request, std::uint64_t& elements) {
  elements = 0;
  switch (extent) {
    case Extent::kNothing: return true;
    case Extent::kCount: elements = request.count; return true;
    case Extent::kBlocks: elements = request.count * request.size; return true;
    case Extent::kOwnCount: return Sum(request.counts.subspan(request.rank, 1), elements);
    case Extent::kFirstCounts: return Sum(request.counts.first(request.size), elements);
    case Extent::kSecondCounts: return Sum(request.counts.subspan(request.size), elements);
  }
  return false;
}

}  // namespace

bool ShapeOf(const ShapeRequest& request, OperationShape& shape) {
  const OperationRow* const row = kOperations.Find(request.kind);
  if (row == nullptr || request.size == 0 || request.count > kElementsMax / request.size) {
    return false;
  }
  if (IsEmpty(row->value) && request.count != 0) return false;
  if (HasCounts(row->value) && (request.rank >= request.size ||
                                request.counts.size() != CountsLength(row->value, request.size))) {
    return false;
  }
  shape = {row->input.IsOn(request.rank, request.root),
           row->output.IsOn(request.rank, request.root), 0, 0};
  return (!shape.reads || Measure(row->input.extent, request, shape.input_elements)) &&
         (!shape.writes || Measure(row->output.extent, request, shape.output_elements));
}

double RingLoad(OperationKind kind, std::uint32_t ranks) {
  const double others = (ranks - 1.0) / ranks;
  // All data moves twice: to be combined, and then to every rank.
  if (Reduces(kind) && !HasRoot(kind) && !HasBlocks(kind)) return 2 * others;
  return HasBlocks(kind) || HasCounts(kind) ? others : 1;
}

}  // namespace mlxcomm

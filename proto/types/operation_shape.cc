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

}  // namespace

std::uint64_t CountsLength(OperationKind kind, std::uint32_t size) {
  switch (kind) {
    case OperationKind::kAllGatherV: return size;
    case OperationKind::kAllToAllV: return std::uint64_t{2} * size;
    default: return 0;
  }
}

bool ShapeOf(const ShapeRequest& request, OperationShape& shape) {
  if (request.size == 0 || request.count > kElementsMax / request.size) return false;
  const bool at_root = request.rank == request.root;
  const std::uint64_t count = request.count;
  const std::uint64_t all = count * request.size;
  switch (request.kind) {
    case OperationKind::kAllReduce: shape = {true, true, count, count}; return true;
    case OperationKind::kAllGather: shape = {true, true, count, all}; return true;
    case OperationKind::kSend: shape = {true, false, count, 0}; return true;
    case OperationKind::kReceive: shape = {false, true, 0, count}; return true;
    case OperationKind::kBarrier: shape = {}; return count == 0;
    case OperationKind::kReduceScatter: shape = {true, true, all, count}; return true;
    case OperationKind::kBroadcast:
      shape = {at_root, true, at_root ? count : 0, count};
      return true;
    case OperationKind::kReduce: shape = {true, at_root, count, at_root ? count : 0}; return true;
    case OperationKind::kAllToAll: shape = {true, true, all, all}; return true;
    case OperationKind::kGather: shape = {true, at_root, count, at_root ? all : 0}; return true;
    case OperationKind::kScatter: shape = {at_root, true, at_root ? all : 0, count}; return true;
    case OperationKind::kAllGatherV:
      if (request.counts.size() != request.size || request.rank >= request.size) return false;
      shape = {true, true, request.counts[request.rank], 0};
      return Sum(request.counts, shape.output_elements);
    case OperationKind::kAllToAllV:
      if (request.counts.size() != std::size_t{2} * request.size) return false;
      shape = {true, true, 0, 0};
      return Sum(request.counts.first(request.size), shape.input_elements) &&
             Sum(request.counts.subspan(request.size), shape.output_elements);
  }
  return false;
}

}  // namespace mlxcomm

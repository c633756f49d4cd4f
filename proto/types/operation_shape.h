// How many elements each rank reads and writes in one operation: the rows of operation.h, with
// numbers. Client and daemon both use this.
#pragma once

#include <cstdint>
#include <span>

#include "proto/types/operation.h"

namespace mlxcomm {

struct ShapeRequest {
  OperationKind kind = OperationKind::kBarrier;
  std::uint64_t count = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t root = 0;
  std::span<const std::uint64_t> counts = {};  // CountsLength() entries where HasCounts().
};

struct OperationShape {
  bool reads = false;
  bool writes = false;
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
};

inline constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 56;

// Entries of the table of counts; 0 for kinds that have none.
constexpr std::uint64_t CountsLength(OperationKind kind, std::uint32_t size) {
  return std::uint64_t{CountsPerRank(kind)} * size;
}

// False: more than kElementsMax elements.
[[nodiscard]] bool ShapeOf(const ShapeRequest& request, OperationShape& shape);

// How often each link of a ring of all ranks carries the operation's bytes, in each direction, as
// nccl-tests counts it: for blocks or counts, the bytes of all ranks' blocks together.
double RingLoad(OperationKind kind, std::uint32_t ranks);

}  // namespace mlxcomm

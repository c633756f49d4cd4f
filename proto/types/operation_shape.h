// How much each rank reads and writes, by kind of operation: the one place that
// client and daemon ask.
//
//   kind            input                    output
//   all_reduce      count                    count
//   all_gather      count                    size x count, in order of rank
//   reduce_scatter  size x count             count: the rank's own block
//   broadcast       count, at the root       count
//   reduce          count                    count, at the root
//   all_to_all      size x count             size x count: block r to, and from, rank r
//   gather          count                    size x count, at the root
//   scatter         size x count, at root    count
//   all_gather_v    counts[rank]             sum of counts, packed in order of rank
//   all_to_all_v    sum of counts[0, size)   sum of counts[size, 2 x size), packed
//   send, recv      count                    count
//   barrier         -                        -
//
// Owner: none, pure functions. Thread: any. Memory: none.
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
std::uint64_t CountsLength(OperationKind kind, std::uint32_t size);

// False: more than kElementsMax elements.
[[nodiscard]] bool ShapeOf(const ShapeRequest& request, OperationShape& shape);

}  // namespace mlxcomm

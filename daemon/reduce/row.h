// One row of work: the arguments of Combine, for the families of kernels.
//
//   Combine ─┬─▶ CombineIntegers        integers and bool
//   lines  ──┴─▶ CombineFloats          floating point and complex
//
// Owner: kernels.cc. Thread: any. Memory: the caller's buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/reduce/kernels.h"

namespace mlxcomm::reduce {

struct Row {
  const std::byte* const* inputs;
  std::size_t input_count;
  std::byte* const* outputs;
  std::size_t output_count;
  std::size_t elements;
  std::uint32_t divisor;
  bool streams;  // Stores go past the caches.
};

// Both require an operator other than kNone that has a meaning for the type.
void CombineIntegers(DataType type, ReduceOperator op, const Row& row);
void CombineFloats(DataType type, ReduceOperator op, const Row& row);
// Calls one or the other; stores to every output as it computes.
void CombineDirectly(DataType type, ReduceOperator op, const Row& row);

}  // namespace mlxcomm::reduce

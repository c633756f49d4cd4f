// The values that the ranks of a measurement pass, and the results that they must give: small whole
// numbers, so that every result is exact in every type and one wrong bit is noticed.
//
// An element's value depends on its index and on the rank. So an element that is left out, comes
// from another rank or lies elsewhere mostly gives another number.
#pragma once

#include <cstdint>

#include "proto/types/operation.h"

namespace mlxcomm::bench {

inline constexpr std::uint32_t kRoot = 0;  // For operations that have one.

struct Measured {
  OperationKind kind = OperationKind::kAllReduce;  // One of those that bench offers.
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

// The elements of a rank's input and output; `count` as the operation takes it. send_recv is kSend
// here: each rank sends to the next one and receives from the previous. 0: a rank that is not the
// root has none.
std::uint64_t InputElements(const Measured& measured, std::uint64_t count);
std::uint64_t OutputElements(const Measured& measured, std::uint64_t count);

void FillInput(const Measured& measured, std::uint64_t count, void* input);
// How many elements of the output are wrong.
std::uint64_t CountWrong(const Measured& measured, std::uint64_t count, const void* output);

}  // namespace mlxcomm::bench

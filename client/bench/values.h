// The inputs and expected results of a measurement: small integers, so that every result is exact
// in every type. A value depends on the element's index and the rank, to detect missing and
// misplaced elements.
#pragma once

#include <cstdint>

#include "proto/types/operation.h"

namespace mlxcomm::bench {

inline constexpr std::uint32_t kRoot = 0;  // The root of operations that have one.

struct Measured {
  OperationKind kind = OperationKind::kAllReduce;  // One that bench offers.
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

// The number of elements in a rank's input and output (0 for none); `count` as the operation takes
// it. kSend means send_recv: each rank sends to the next one and receives from the previous.
std::uint64_t InputElements(const Measured& measured, std::uint64_t count);
std::uint64_t OutputElements(const Measured& measured, std::uint64_t count);

void FillInput(const Measured& measured, std::uint64_t count, void* input);
// Returns the number of wrong elements in the output.
std::uint64_t CountWrong(const Measured& measured, std::uint64_t count, const void* output);

}  // namespace mlxcomm::bench

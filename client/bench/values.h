// What the ranks of a measurement pass, and what must come out of it: small whole numbers,
// of which every result is exact in every type, so that one wrong bit is seen.
//
// A rank's element depends on its number and on the rank. So an element that is left out,
// comes from another rank or lies elsewhere gives another number, mostly.
#pragma once

#include <cstdint>

#include "proto/types/operation.h"

namespace mlxcomm::bench {

inline constexpr std::uint32_t kRoot = 0;  // Of operations that have one.

struct Measured {
  OperationKind kind = OperationKind::kAllReduce;  // Of OperationKind, those that bench offers.
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

// Elements of a rank's input and output; `count` as the operation takes it. send_recv is
// kSend here: each rank sends to the next one and receives from the one before. 0: what a rank
// that is not the root neither reads nor gets.
std::uint64_t InputElements(const Measured& measured, std::uint64_t count);
std::uint64_t OutputElements(const Measured& measured, std::uint64_t count);

void FillInput(const Measured& measured, std::uint64_t count, void* input);
// Elements of the output that are not what they must be.
std::uint64_t CountWrong(const Measured& measured, std::uint64_t count, const void* output);

}  // namespace mlxcomm::bench

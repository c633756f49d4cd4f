// Element-wise kernels: combine several buffers into one or more, with SIMD chosen at run time
// (Highway).
//
// Every output[k][i] = (input[0][i] op input[1][i] op ...) / divisor, left to right. An element's
// bits depend only on the elements combined and their order. (Of several NaNs, the machine chooses
// whose payload is kept.) README.md, Combine, defines each type's result and bounds its error.
//
// A new data type is a Format in formats-inl.h, a new operator an Operator in operators-inl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/types/operation.h"

namespace mlxcomm::reduce {

// The kinds of stores differ on x86-64 only, and only for results that can be stored that way
// (row.h).
enum class Stores : std::uint8_t {
  kOrdinary,     // Fetches each line before it is written.
  kWholeLines,   // Writes whole lines into the cache without fetching them.
  kNonTemporal,  // Bypasses the caches: for data that does not fit them.
};

struct Reduction {
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kNone;
  // At most 2^24, exact in float32. 1 except for a kMean whose final value is made.
  std::uint32_t divisor = 1;
};

// input_count >= 1, output_count >= 0. One input and a divisor of 1 is a copy of bits; otherwise
// the operator must have a meaning for the type (or this aborts). kMean with a divisor of 1 is a
// sum. Pointers are aligned to the element. An output may be the same as an input; otherwise
// buffers do not overlap.
void Combine(const Reduction& reduction, const std::byte* const* inputs, std::size_t input_count,
             std::byte* const* outputs, std::size_t output_count, std::size_t elements,
             Stores stores = Stores::kOrdinary);

}  // namespace mlxcomm::reduce

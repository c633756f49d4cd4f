// Element-wise kernels: combine several buffers into one or more, with SIMD chosen
// at run time (Highway).
//
// Every output[k][i] = input[0][i] op input[1][i] op ..., left to right; each input
// is read once and each output written once. float16 and bfloat16 are accumulated
// in float32 and rounded once, to nearest even; int32 wraps. SIMD and scalar code
// give the same bits, so a result never depends on lengths or on the machine's
// vector size.
//
// To add a data type: a Format in formats-inl.h. An operator: an Operator there.
//
// Owner: none, pure functions. Thread: any. Memory: the caller's buffers.
#pragma once

#include <cstddef>

#include "proto/types/operation.h"

namespace mlxcomm::reduce {

// Non-temporal stores go past the caches: for data that does not fit them.
enum class Stores : bool { kOrdinary, kNonTemporal };

// Whether the operator has a meaning for the type; kNone (copy) always has.
bool Supports(DataType type, ReduceOperator op);

// input_count >= 1 (1: a copy, whatever the operator), output_count >= 0. Pointers
// are aligned to the element. An output may be the same as an input; otherwise
// buffers do not overlap. `op` must be supported unless input_count is 1.
void Combine(DataType type, ReduceOperator op, const std::byte* const* inputs,
             std::size_t input_count, std::byte* const* outputs, std::size_t output_count,
             std::size_t elements, Stores stores);

}  // namespace mlxcomm::reduce

// Element-wise kernels: combine several buffers into one or more, with SIMD chosen at run time (Highway).
//
// Every output[k][i] = (input[0][i] op input[1][i] op ...) / divisor, left to right; each input is read
// once and each output written once. An element's bits depend only on the elements combined and their
// order: not on lengths, alignment, the kind of stores or the machine's vectors. (Of several NaNs, the
// machine chooses whose payload comes out.) README.md, Combine, defines the result for each type and
// bounds its error.
//
// To add a data type: a Format in formats-inl.h. An operator: an Operator in operators-inl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/types/operation.h"

namespace mlxcomm::reduce {

// How results are stored. The three differ on x86-64; elsewhere all are ordinary, and so are
// results that cannot be stored otherwise (row.h; README.md says which go past the caches).
enum class Stores : std::uint8_t {
  kOrdinary,     // Each line is fetched before it is written.
  kWholeLines,   // Whole lines into the cache: none is fetched, perhaps from another core.
  kNonTemporal,  // Past the caches: for data that does not fit them.
};

struct Reduction {
  DataType type;
  ReduceOperator op;
  std::uint32_t divisor = 1;  // At most 2^24, exact in float32. 1 for all but kMean.
};

// input_count >= 1, output_count >= 0. One input and a divisor of 1 is a copy of bits, whatever the
// operator; otherwise the operator is not kNone and HasMeaning for the type (else this aborts).
// kMean with a divisor of 1 is a sum. Pointers are aligned to the element. An output may be the
// same as an input; otherwise buffers do not overlap.
void Combine(const Reduction& reduction, const std::byte* const* inputs, std::size_t input_count,
             std::byte* const* outputs, std::size_t output_count, std::size_t elements,
             Stores stores = Stores::kOrdinary);

}  // namespace mlxcomm::reduce

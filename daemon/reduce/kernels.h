// Element-wise kernels: combine several buffers into one or more, with SIMD chosen
// at run time (Highway).
//
// Every output[k][i] = (input[0][i] op input[1][i] op ...) / divisor, left to right;
// each input is read once and each output written once. An element's bits depend only
// on the elements combined and their order: not on lengths, alignment, the kind of
// stores or the machine's vectors. (Of several NaNs, which one's payload comes out is
// the machine's choice.)
//
//   integers       wrap; "and" and "or" are bitwise
//   bool           any byte but 0 is true, 0 and 1 come out; sum and max are "or",
//                  product and min are "and"
//   float16,       combined and divided in float32, then rounded once, to nearest even
//   bfloat16
//   min, max       IEEE 754-2019's: NaN if any input is, -0 is less than +0
//   complex64      (a+bi)(c+di) = (ac-bd) + (ad+bc)i, each operation rounded; a mean
//                  divides both parts; min, max by the real part, then the imaginary one
//                  (MLX's and numpy's order), NaN if a part of any input is
//
// Error of a sum of n inputs against the exact one, S being the sum of their
// magnitudes and nothing overflowing (Higham, Accuracy and Stability of Numerical
// Algorithms, 2002, section 4.2; that no higher powers of u are needed: Jeannerod and
// Rump, SIAM J. Matrix Anal. Appl. 34, 2013):
//
//   float32, float64     (n-1) u S                     u = 2^-24, 2^-53
//   complex64            (n-1) u S                     u = 2^-24, for each part
//   float16, bfloat16    (u + (1+u)(n-1) 2^-24) S      u = 2^-11, 2^-8; for a result below
//                                                      the normal numbers 2^-25, 2^-134 more
//
// A mean's is that of its sum, divided, and one more rounding: relative 2^-24 (float64:
// 2^-53). Sums of partial sums (a ring's) add up what each of their calls may err.
//
// To add a data type: a Format in formats-inl.h. An operator: an Operator in
// operators-inl.h.
//
// Owner: none, pure functions. Thread: any. Memory: the caller's buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/types/operation.h"

namespace mlxcomm::reduce {

// How results are stored. The three differ on x86-64; elsewhere all are ordinary, and so is what
// cannot be stored otherwise (whole_lines.h; README.md has what goes past the caches).
enum class Stores : std::uint8_t {
  kOrdinary,     // As they are computed. Each line is fetched before it is written.
  kWholeLines,   // Whole lines into the cache: none is fetched, perhaps from another core.
  kNonTemporal,  // Past the caches: for data that does not fit them.
};

struct Reduction {
  DataType type;
  ReduceOperator op;
  std::uint32_t divisor = 1;  // At most 2^24, exact in float32. Only kMean has another.
};

// input_count >= 1, output_count >= 0. One input and a divisor of 1 is a copy of bits,
// whatever the operator; otherwise the operator is not kNone and HasMeaning for the type
// (else this aborts). kMean with a divisor of 1 is a sum. Pointers are aligned to the
// element. An output may be the same as an input; otherwise buffers do not overlap.
void Combine(const Reduction& reduction, const std::byte* const* inputs, std::size_t input_count,
             std::byte* const* outputs, std::size_t output_count, std::size_t elements,
             Stores stores = Stores::kOrdinary);

}  // namespace mlxcomm::reduce

// One row of work: the arguments of Combine, for the integer and floating-point kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/reduce/kernels.h"

// The instruction sets for which the kernels are compiled. Other x86-64 sets gain nothing here, and
// vectors whose size the compiler does not know (SVE) cannot be members of Complex64Format.
//
// Include this before any Highway header. Highway gives a better instruction set of a family a
// smaller bit: all below AVX3 and, from bit 15, all below NEON are left out, including those of
// later releases.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | (HWY_NEON - (1LL << 15)))

namespace mlxcomm::reduce {

struct Row {
  const std::byte* const* inputs;
  std::size_t input_count;
  std::byte* const* outputs;
  std::size_t output_count;
  std::size_t elements;
  std::uint32_t divisor;
  bool streams;  // Stores bypass the caches.
};

void CombineIntegers(DataType type, ReduceOperator op, const Row& row);
void CombineFloats(DataType type, ReduceOperator op, const Row& row);
// Calls one of the two; stores to every output as it computes.
void CombineDirectly(DataType type, ReduceOperator op, const Row& row);

// Combines a chunk at a time in the first-level cache and copies it, so that whole lines are
// written (README.md, Decisions). Returns false if that would gain nothing: without ERMS (Intel 64
// and IA-32 Architectures Optimization Reference Manual, "Enhanced REP MOVSB"; AMD since Zen 3),
// and for short rows.
bool CanStoreWholeLines(DataType type, const Row& row);
// Like CombineDirectly; requires CanStoreWholeLines.
void CombineIntoWholeLines(DataType type, ReduceOperator op, const Row& row);

}  // namespace mlxcomm::reduce

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

// The instruction sets for which the kernels are compiled: the baseline, SSE4, AVX2 and AVX-512 on
// x86-64, NEON on AArch64. Each one multiplies every kernel; the others of x86-64 add nothing to
// loading, combining and storing, and vectors whose size the compiler does not know (SVE) cannot be
// members of Complex64Format.
//
// To be included before any header of Highway, which gives a better instruction set of a family a
// smaller bit: all below AVX3 and, from bit 15, all below NEON are left out, including those that
// later releases add.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | (HWY_NEON - (1LL << 15)))

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

// Results that are combined a chunk at a time, in the first cache, and copied to the outputs from
// there, so that whole lines are written (README.md, Decisions).
//
//   inputs ──▶ kernels ──▶ chunk ──string copy──▶ every output
//
// False: it would gain nothing. So without ERMS (Intel 64 and IA-32 Architectures Optimization
// Reference Manual, "Enhanced REP MOVSB"; AMD has it since Zen 3), and for short rows: with more
// than 16 ranks each has less than 8 KiB of a piece of work.
bool CanStoreWholeLines(DataType type, const Row& row);
// The same as CombineDirectly; requires CanStoreWholeLines.
void CombineIntoWholeLines(DataType type, ReduceOperator op, const Row& row);

}  // namespace mlxcomm::reduce

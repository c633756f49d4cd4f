// The instruction sets for which the kernels are compiled: the baseline, SSE4, AVX2 and AVX-512 on
// x86-64, NEON on AArch64. Each one multiplies every kernel; the others of x86-64 add nothing to
// loading, combining and storing, and vectors whose size the compiler does not know (SVE) cannot be
// members of Complex64Format.
//
// To be included before any header of Highway, which gives a better instruction set of a family a
// smaller bit: all below AVX3 and, from bit 15, all below NEON are left out, including those that
// later releases add.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | (HWY_NEON - (1LL << 15)))

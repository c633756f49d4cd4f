// Which instruction sets the kernels are compiled for: the baseline, SSE4, AVX2 and
// AVX-512 on x86-64, NEON on AArch64. Each one multiplies every kernel; the others of
// x86-64 have nothing to add to loading, combining and storing, and vectors whose size
// is not known to the compiler (SVE) cannot be the members that Complex64Format has.
//
// To be included before any header of Highway, which gives a better instruction set of
// a family a smaller bit: all below AVX3 and, from bit 15, all below NEON are left out,
// those that later releases add too.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | (HWY_NEON - (1LL << 15)))

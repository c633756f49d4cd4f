// Conditions that hold unless this program has a bug. A violation aborts the program in every
// build, whereas NDEBUG removes assert() and Abseil's checks.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace mlxcomm {

[[noreturn]] inline void EndByBug(const char* invariant, const char* file, int line) {
  std::fprintf(stderr, "mlxcomm: bug: expected %s, at %s:%d\n", invariant, file, line);
  std::abort();
}

}  // namespace mlxcomm

#define MLXCOMM_INVARIANT(condition) \
  ((condition) ? static_cast<void>(0) : ::mlxcomm::EndByBug(#condition, __FILE__, __LINE__))

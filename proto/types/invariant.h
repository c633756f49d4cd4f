// Conditions that hold unless this program has a bug. If one does not hold, the program reports it
// and ends, in every build: assert() and Abseil's checks are gone where a packager defines NDEBUG.
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

// How long a test waits for what comes at once: only what hangs takes so long. A sanitized test on
// a busy machine may be a hundred times slower than one alone, which is nothing that it tests.
#pragma once

#include <chrono>
#include <cstdint>

namespace mlxcomm {

inline constexpr std::chrono::minutes kNever{5};  // ctest ends a test after 15.
inline constexpr int kNeverMs = std::chrono::milliseconds(kNever).count();
inline constexpr std::uint64_t kNeverNs = std::chrono::nanoseconds(kNever).count();

}  // namespace mlxcomm

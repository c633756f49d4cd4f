// How long a test waits for something that happens at once: only a hang takes this long. A
// sanitized test on a busy machine may be a hundred times slower than alone, which is not what it
// tests.
#pragma once

#include <chrono>
#include <cstdint>

namespace mlxcomm {

inline constexpr std::chrono::minutes kNever{5};  // ctest ends a test after 15.
inline constexpr int kNeverMs = std::chrono::milliseconds(kNever).count();
inline constexpr std::uint64_t kNeverNs = std::chrono::nanoseconds(kNever).count();

}  // namespace mlxcomm

// The library's clock, which proto/queue's deadlines use.
#pragma once

#include <chrono>
#include <cstdint>

namespace mlxcomm::client {

inline std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace mlxcomm::client

// How long a thread that waits for completions looks for them before it sleeps: the rail's in the
// daemon, and the queue pair's in the process that calls the driver. Short where cores are scarce.
//
// Owner: none, numbers. Thread: any. Memory: none.
#pragma once

#include <cstdint>

#include "daemon/platform/machine.h"

namespace mlxcomm::fabric::rdma {

inline constexpr std::uint64_t kSpinNsFewCores = 5'000;
inline constexpr std::uint64_t kSpinNsManyCores = 50'000;
// While an operation is in flight, for then something will come.
inline constexpr std::uint64_t kSpinNsInFlight = 500'000;
inline constexpr std::uint32_t kFewCores = 4;
// Where completions cannot be waited for, and where there is no room for what they bring.
inline constexpr int kLookMs = 1;

inline bool HasFewCores() { return platform::CoreCount() <= kFewCores; }

}  // namespace mlxcomm::fabric::rdma

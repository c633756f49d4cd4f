// How many cores this process may use: a cpuset or taskset may leave fewer than the machine has. A
// process's scheduling policy depends on it (scheduling_policy.h).
//
// Thread: any.
#pragma once

#include <cstdint>

namespace mlxcomm::queue {

std::uint32_t UsableCores();  // At least 1.

}  // namespace mlxcomm::queue

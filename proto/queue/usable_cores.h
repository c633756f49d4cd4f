// How many cores this process may use: a cpuset or taskset may leave fewer than the machine
// has. Whoever spins, or starts threads, goes by it.
//
// Owner: nobody. Thread: any. Memory: none.
#pragma once

#include <cstdint>

namespace mlxcomm::queue {

std::uint32_t UsableCores();  // At least 1.

}  // namespace mlxcomm::queue

// How many cores this process may use: a cpuset or taskset may leave fewer than the machine
// has. Whoever spins, or starts threads, goes by it.
//
// Owner: nobody. Thread: any. Memory: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace mlxcomm::queue {

inline std::uint32_t UsableCores() {
#if defined(__linux__)
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0) {
    return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&usable)));
  }
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace mlxcomm::queue

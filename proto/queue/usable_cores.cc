#include "proto/queue/usable_cores.h"

#include <algorithm>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace mlxcomm::queue {

std::uint32_t UsableCores() {
#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0) {
    return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&usable)));
  }
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace mlxcomm::queue

#include "daemon/platform/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace mlxcomm::platform {

std::uint64_t PhysicalMemoryBytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// RssAnon of proc(5): private pages; clients' arenas are shared ones.
std::uint64_t OwnMemoryBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::uint64_t kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib * 1024;
  }
  return 0;
}

// A cpuset or taskset may leave us fewer than the machine has.
std::uint32_t CoreCount() {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0) {
    return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&usable)));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace mlxcomm::platform

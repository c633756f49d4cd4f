#include "daemon/platform/machine.h"

#include <unistd.h>

#include <fstream>
#include <string>

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

}  // namespace mlxcomm::platform

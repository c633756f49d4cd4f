#include "daemon/platform/machine.h"

#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace mlxcomm::platform {
namespace {

constexpr std::uint64_t kCacheBytesUnknown = 8 * 1024 * 1024;

}  // namespace

std::uint64_t PhysicalMemoryBytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// RssAnon, computed from statm, because reading proc(5) status takes ten times as long and the
// payload thread calls this. Clients' arenas count as shared pages.
std::uint64_t OwnMemoryBytes() {
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  if (!(std::ifstream("/proc/self/statm") >> size >> resident >> shared)) return 0;
  return (resident - std::min(shared, resident)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void ReleaseFreeMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void ShareHeaps() {
#ifdef __GLIBC__
  ::mallopt(M_ARENA_MAX, 2);
#endif
}

std::string MacosVersion() { return {}; }

std::string OwnExecutable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::uint32_t CurrentCore() {
  const int core = ::sched_getcpu();
  return core < 0 ? kAnyCore : static_cast<std::uint32_t>(core);
}

void LeaveCore(std::uint32_t core) {
  cpu_set_t usable;
  if (core >= CPU_SETSIZE || ::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  cpu_set_t others = usable;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  ::sched_setaffinity(0, sizeof usable, &usable);
}

// The C library does not always know it. The kernel lists the first core's caches as "32768K".
std::uint64_t LastLevelCacheBytes() {
  std::uint64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream size("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                       "/size");
    std::uint64_t number = 0;
    char unit = 0;
    if (!(size >> number >> unit)) break;
    largest = std::max(largest, number * (unit == 'M' ? 1024 * 1024 : 1024));
  }
  return largest != 0 ? largest : kCacheBytesUnknown;
}

// proc(5): the state follows the program's name, which is in parentheses and may contain some.
bool IsStopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const std::size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'T';
}

}  // namespace mlxcomm::platform

#include "daemon/platform/machine.h"

#include <limits.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <malloc/malloc.h>
#include <sys/proc.h>
#include <sys/sysctl.h>
#include <sys/types.h>

namespace mlxcomm::platform {

std::uint64_t PhysicalMemoryBytes() {
  std::uint64_t bytes = 0;
  std::size_t length = sizeof bytes;
  return ::sysctlbyname("hw.memsize", &bytes, &length, nullptr, 0) == 0 ? bytes : 0;
}

// Returns what Activity Monitor shows; may include pages of clients' arenas.
std::uint64_t OwnMemoryBytes() {
  task_vm_info_data_t info;
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  if (::task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&info), &count) !=
      KERN_SUCCESS) {
    return 0;
  }
  return info.phys_footprint;
}

void ReleaseFreeMemory() { ::malloc_zone_pressure_relief(nullptr, 0); }

void ShareHeaps() {}  // Threads share them already.

std::string MacosVersion() {
  char version[32] = {};
  std::size_t length = sizeof version - 1;
  return ::sysctlbyname("kern.osproductversion", version, &length, nullptr, 0) == 0 ? version : "";
}

std::string OwnExecutable() {
  char path[PATH_MAX] = {};
  std::uint32_t bytes = sizeof path;
  return ::_NSGetExecutablePath(path, &bytes) == 0 ? path : "";
}

std::uint32_t CurrentCore() { return kAnyCore; }

void LeaveCore(std::uint32_t) {}

// The performance cores' shared cache; the system does not report the cache behind it.
std::uint64_t LastLevelCacheBytes() {
  for (const char* const name : {"hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"}) {
    std::uint64_t bytes = 0;
    std::size_t length = sizeof bytes;
    if (::sysctlbyname(name, &bytes, &length, nullptr, 0) == 0 && bytes != 0) return bytes;
  }
  return 8 * 1024 * 1024;
}

bool IsStopped(pid_t process) {
  kinfo_proc reported{};
  size_t bytes = sizeof reported;
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, process};
  if (::sysctl(name, 4, &reported, &bytes, nullptr, 0) != 0 || bytes < sizeof reported)
    return false;
  return reported.kp_proc.p_stat == SSTOP && (reported.kp_proc.p_flag & P_TRACED) == 0;
}

}  // namespace mlxcomm::platform

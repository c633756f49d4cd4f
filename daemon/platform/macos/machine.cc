#include "daemon/platform/machine.h"

#include <mach/mach.h>
#include <sys/sysctl.h>
#include <sys/types.h>

namespace mlxcomm::platform {

std::uint64_t PhysicalMemoryBytes() {
  std::uint64_t bytes = 0;
  std::size_t length = sizeof bytes;
  return ::sysctlbyname("hw.memsize", &bytes, &length, nullptr, 0) == 0 ? bytes : 0;
}

// What Activity Monitor shows; shared mappings are not in it.
std::uint64_t OwnMemoryBytes() {
  task_vm_info_data_t info;
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  if (::task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&info), &count) !=
      KERN_SUCCESS) {
    return 0;
  }
  return info.phys_footprint;
}

}  // namespace mlxcomm::platform

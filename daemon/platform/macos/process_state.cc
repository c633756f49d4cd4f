#include "daemon/platform/process_state.h"

#include <sys/proc.h>
#include <sys/sysctl.h>

namespace mlxcomm::platform {

bool IsStopped(pid_t process) {
  kinfo_proc told{};
  size_t bytes = sizeof told;
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, process};
  if (::sysctl(name, 4, &told, &bytes, nullptr, 0) != 0 || bytes < sizeof told) return false;
  return told.kp_proc.p_stat == SSTOP && (told.kp_proc.p_flag & P_TRACED) == 0;
}

}  // namespace mlxcomm::platform

// Whether a process is stopped: by SIGSTOP, Ctrl-Z, or by reading from a terminal in whose background it
// is. One that a debugger holds is not: somebody looks at it.
#pragma once

#include <sys/types.h>

namespace mlxcomm::platform {

// False also where the system does not tell.
bool IsStopped(pid_t process);

}  // namespace mlxcomm::platform

// Whether a process is stopped: by SIGSTOP, by Ctrl-Z, or because it reads from a terminal in the
// background. One that a debugger holds does not count: a person is looking at it.
#pragma once

#include <sys/types.h>

namespace mlxcomm::platform {

// False also where the system does not say.
bool IsStopped(pid_t process);

}  // namespace mlxcomm::platform

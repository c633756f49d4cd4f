// A descriptor that becomes readable when a process ends, whoever its parent is.
//
// The doorbell's end-of-file does not come while a forked child still holds a copy
// of it; this does.
//
// Owner: the caller. Thread: any. Memory: none.
#pragma once

#include <sys/types.h>

#include "daemon/platform/file_descriptor.h"

namespace mlxcomm::platform {

// Invalid with errno set: ESRCH where the process has gone already, else the system
// cannot watch it.
FileDescriptor WatchProcessExit(pid_t pid);

}  // namespace mlxcomm::platform

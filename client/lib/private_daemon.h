// Starts a private daemon if none is running: `mlxcommd --private`, the one at $MLXCOMM_DAEMON, or
// found beside the library, in ../bin or on PATH. It ends with its last client and outlives the one
// that started it, so it inherits nothing from it: no descriptor, signal mask, terminal.
//
// Thread: any; a lock file keeps two processes from starting two.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::client {

// Ok: a daemon was started (by us, or by another process at the same time) and its socket exists.
// Otherwise why not, with the end of its log. `interrupted` may be empty; if not, it is called
// while waiting, and a true result gives CANCELLED. Waits at most a day.
Failure StartPrivateDaemon(const std::string& socket_path, std::uint64_t timeout_ns,
                           const std::function<bool()>& interrupted = {});

// The folder of this library; empty if it cannot be found.
std::string LibraryFolder();

}  // namespace mlxcomm::client

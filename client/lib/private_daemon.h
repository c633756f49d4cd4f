// Starts a private daemon where there is none: `mlxcommd --private`, found beside
// the library, in ../bin, at $MLXCOMM_DAEMON or on PATH. It ends with its last
// client and outlives the one that started it.
//
// Owner: functions. Thread: any; a lock file keeps two processes from starting two.
// Memory: none.
#pragma once

#include <cstdint>
#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::client {

// Ok: a daemon was started (by us or by somebody else meanwhile) and its socket is
// there. Otherwise why not, with the end of its log.
Failure StartPrivateDaemon(const std::string& socket_path, std::uint64_t timeout_ns);

// The folder of this library; empty where it cannot be found.
std::string LibraryFolder();

}  // namespace mlxcomm::client

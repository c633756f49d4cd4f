// Joining a job: connects to this machine's daemon, and waits until all of the job's ranks are there.
//
// Owner: the group that is returned. Thread: any; no lock is held while it waits. Memory: the
// arena's addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/lib/mlxcomm.h"
#include "client/mlx/group_impl.h"

namespace mlxcomm::graph {

struct JoinOptions {
  std::string socket = {};        // Empty: mlxcomm_connect finds it.
  std::uint64_t timeout_ns = 0;   // To wait for the other ranks; 0: the daemon's.
  std::uint64_t arena_bytes = 0;  // 0: as much as the daemon allows.
};

// Ctrl-C ends the wait with CANCELLED, where the program handles it. Throws std::invalid_argument
// at once where MLXCOMM_RESULTS has a wrong value.
mlxcomm_code JoinJob(const std::string& job, std::uint32_t rank, std::uint32_t size,
                     const JoinOptions& options, std::shared_ptr<DaemonGroup>& joined,
                     mlxcomm_error& error);

}  // namespace mlxcomm::graph

// This process's groups by place in a job. The first group of more than one rank is the default, as
// in MLX.
//
//   GroupOf(place) ──▶ joined before: the same group ── its daemon is lost or stops ──▶ joins again
//                 '──▶ joins; other threads that ask for this place wait meanwhile
//
// At exit() jobs are left as process_end.h describes. Objects of MLX or the program may still own
// groups then, so all handles are closed unless a call on a group is in progress; in that case the
// daemon sees the process die.
//
// Owner: the process; never destroyed. Thread: any. Memory: an entry for each place. A forked child
// has none.
#pragma once

#include <memory>

#include "client/lib/mlxcomm.h"
#include "client/mlx/group_impl.h"

namespace mlxcomm::graph {

using AnyGroup = std::shared_ptr<mlx::core::distributed::detail::GroupImpl>;

// Both throw OperationError, or std::invalid_argument for an invalid environment variable. A group
// of one rank is an AloneGroup, without a daemon.
AnyGroup GroupOf(const mlxcomm_place& place, const JoinOptions& options = {});
// The first place of more than one rank that this process has joined, otherwise the one from its
// environment.
mlxcomm_place DefaultPlace();

// Replaces the failed world with `rest` from now on. Does nothing for other groups.
void StandFor(const DaemonGroup& failed, const std::shared_ptr<DaemonGroup>& rest);

// Leaves the process's jobs at exit(). `why` is called then and returns the error that ended the
// program, or null.
void LeaveJobsAtEnd(const char* (*why)());

}  // namespace mlxcomm::graph

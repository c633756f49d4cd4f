// The groups of this process by its places in jobs. A process usually has one place, so asking
// again gives the same group, and the first group of more than one rank is the default, as in MLX.
//
//   GroupOf(place) ──▶ joined before: the same ── its daemon is lost or stopping ──▶ joins again
//                 '──▶ joins; other threads that ask for that place meanwhile wait for it
//
// A forked child has none of its parent's groups, and libmlxcomm refuses its joining.
//
// At exit() jobs are left as process_end.h says. MLX's own objects and the user's may be destroyed
// before that or after it, and hold groups: so all handles are closed, whatever still holds them, if
// no call on a group is under way. Else the daemon sees the process end.
//
// Owner: the process; never destroyed. Thread: any. Memory: an entry for each place.
#pragma once

#include <memory>

#include "client/lib/mlxcomm.h"
#include "client/mlx/group_impl.h"

namespace mlxcomm::graph {

using AnyGroup = std::shared_ptr<mlx::core::distributed::detail::GroupImpl>;

// Both throw OperationError, or std::invalid_argument for a variable with a wrong value. A group of
// one rank is an AloneGroup, without a daemon.
AnyGroup GroupOf(const mlxcomm_place& place, const JoinOptions& options = {});
// This process's place: the first of more than one rank that it has joined, else by its
// environment.
mlxcomm_place DefaultPlace();

// The ranks that are left of a world stand for it from here on. Does nothing for another group.
void StandFor(const DaemonGroup& failed, const std::shared_ptr<DaemonGroup>& rest);

// Leaves the process's jobs at exit(); a second call does nothing more. `why` is called then: it
// returns the fault by which the program ends, or null.
void LeaveJobsAtEnd(const char* (*why)());

}  // namespace mlxcomm::graph

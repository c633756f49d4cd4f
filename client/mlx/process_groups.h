// The groups of this process by its places in jobs. A process usually has one place, so asking
// again gives the same group, and the first group of more than one rank is the default, as in MLX.
//
//   GroupOf(place) ──▶ joined before: the same ── its daemon is lost or stopping ──▶ joins again
//                 '──▶ joins; other threads that ask for that place meanwhile wait for it
//
// A forked child has none of its parent's groups, and libmlxcomm refuses its joining.
//
// Owner: the process; never destroyed. Thread: any. Memory: an entry for each place.
#pragma once

#include <memory>
#include <vector>

#include "client/lib/mlxcomm.h"
#include "client/mlx/group_impl.h"
#include "client/mlx/joining.h"

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

// The worlds that were joined.
std::vector<std::shared_ptr<DaemonGroup>> Worlds();

}  // namespace mlxcomm::graph

// The groups of this process by its places in jobs. A process has one place as a rule, so who asks again
// gets the same group, and the first group of more than one rank is that of who names none, as in MLX.
//
//   GroupOf(place) ──▶ joined before: the same ── its daemon is lost or stopping ──▶ joins anew
//                 '──▶ joins; others that ask for that place meanwhile wait for it
//
// A forked child has none of its parent's: joining is refused there, by libmlxcomm.
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

// Throw OperationError, or std::invalid_argument for what a variable says wrongly. Of one rank it is an
// AloneGroup, and no daemon is asked.
AnyGroup GroupOf(const mlxcomm_place& place, const JoinOptions& options = {});
// This process's place: the first of more than one rank that it has joined, else by its environment.
mlxcomm_place DefaultPlace();

// What is left of a world stands for it from here on. Of another group: nothing.
void StandFor(const DaemonGroup& failed, const std::shared_ptr<DaemonGroup>& rest);

// Those that have been joined.
std::vector<std::shared_ptr<DaemonGroup>> Worlds();

}  // namespace mlxcomm::graph

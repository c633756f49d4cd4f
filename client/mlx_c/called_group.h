// The group that a call names: one of ours, one of one rank, or the default for an empty handle.
//
// Owner: the caller, and all others that hold the group. Thread: any; the first call that asks for
// the default group waits until it is joined.
#pragma once

#include <memory>
#include <string>

#include "client/mlx/group_impl.h"
#include "client/mlx/process_groups.h"
#include "mlx/c/distributed_group.h"

namespace mlxcomm::mlx_c {

// graph::GroupOf, after what a process does once.
graph::AnyGroup Joined(const mlxcomm_place& place, const graph::JoinOptions& options);

// Null for a group of one rank. Throws std::invalid_argument for one of MLX's own backends.
std::shared_ptr<graph::DaemonGroup> CalledGroup(const char* function, mlx_distributed_group group);

}  // namespace mlxcomm::mlx_c

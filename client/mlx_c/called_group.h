// The group that a call names: one of ours, one of one rank, or the default for an empty handle.
//
// Owner: whoever asks, and whoever else holds the group. Thread: any; of the default group the first to ask
// waits until it is joined. Memory: none.
#pragma once

#include <memory>
#include <string>

#include "client/mlx/group_impl.h"
#include "client/mlx/joining.h"
#include "client/mlx/process_groups.h"
#include "mlx/c/distributed_group.h"

namespace mlxcomm::mlx_c {

// graph::GroupOf, by which everything that a process needs once is done before.
graph::AnyGroup Joined(const mlxcomm_place& place, const graph::JoinOptions& options);

// Null for a group of one rank. Throws std::invalid_argument for one of MLX's own backends.
std::shared_ptr<graph::DaemonGroup> CalledGroup(const char* function, mlx_distributed_group group);

}  // namespace mlxcomm::mlx_c

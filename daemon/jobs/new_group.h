// Settles what all nodes must agree on in a new group: the id of a split, which each node computes,
// and the costs of links, so that all choose the same plans. Each daemon measures its own costs and
// sends them with each rank that it announces; the world gets the worst.
//
// Costs are coarse, so that two runs of a job on the same cables get the same plans: a latency is
// the shortest seen, rounded up to a power of four. The configuration can fix them.
#pragma once

#include <cstdint>
#include <span>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm::jobs {

// The id of the `number`-th split of `parent`, with these ranks in their new order; never 0. A
// strong hash, because a hostile process may try to hit the id of another group.
std::uint64_t SplitGroupId(std::uint64_t parent, std::uint64_t number,
                           std::span<const std::uint32_t> ranks);

// Half the shortest round trip of the slowest link, each by its quickest rail, and the number of
// interfaces that lead to other nodes. 0: not measured.
v1::LinkCosts MeasureCosts(const v1::NodeStatus& links);

// Limits reported costs to plausible values; 0 stays 0.
v1::LinkCosts BoundedCosts(const v1::LinkCosts& reported);

// `worst` becomes the worse of both, field by field.
void TakeWorse(const v1::LinkCosts& other, v1::LinkCosts& worst);

}  // namespace mlxcomm::jobs

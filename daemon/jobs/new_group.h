// What all nodes have to see alike in a new group: the id of one that is split off, which each
// computes by itself, so that nobody has to be asked; and what the links of a job's nodes cost,
// which is measured by each daemon, sent with each rank that it announces, and the worst given to
// all with the world group, so that all nodes choose the same plans.
//
// Figures are coarse, so that two runs of a job on the same cables choose alike: a
// latency is the shortest seen, rounded up to a power of four. A user who must have
// the same plans for ever, whatever is measured, gives the figures in the configuration.
#pragma once

#include <cstdint>
#include <span>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm::jobs {

// The id of the `number`-th split of `parent`, with these of its ranks in their new order; never 0.
// A strong hash, because the members come from processes that may try to hit the id of somebody
// else's group.
std::uint64_t SplitGroupId(std::uint64_t parent, std::uint64_t number,
                           std::span<const std::uint32_t> ranks);

// From heartbeats: half the round trip of the slowest link, each by the quickest of its
// rails and at its best of some, and how many interfaces lead to other nodes. A figure that
// nobody has measured is 0.
v1::LinkCosts MeasureCosts(const v1::NodeStatus& links);

// Within what a sound daemon can have measured; 0 stays 0.
v1::LinkCosts BoundedCosts(const v1::LinkCosts& reported);

// `worst` becomes the worse of both, figure by figure.
void TakeWorse(const v1::LinkCosts& other, v1::LinkCosts& worst);

}  // namespace mlxcomm::jobs

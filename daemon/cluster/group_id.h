// The id of a group that is split off: every node computes it by itself, so nobody
// has to be asked.
//
// A strong hash, because the members come from processes that may try to hit the id of
// somebody else's group.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <span>

namespace mlxcomm::cluster {

// Of the `number`-th split of `parent`, with these of its ranks in their new order.
// Never 0.
std::uint64_t SplitGroupId(std::uint64_t parent, std::uint64_t number,
                           std::span<const std::uint32_t> ranks);

}  // namespace mlxcomm::cluster

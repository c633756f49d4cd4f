// A long all_reduce is done in slices, a few at a time, so that the data under way fits the caches.
//
//   slice 0  ├─ reduce-scatter ─┼─ all-gather ─┤
//   slice 1     ├───────────────┼──────────────┤
//   slice 2                                    ├───  sent when slice 0 has come
//
// Done in one slice, the second pass of a ring sends data that the first one stored long ago and no
// cache holds any more, and the sockets hold as much as they have room for: between daemons on one
// machine 64 MiB then take a fifth longer, in a ring of four a third.
//
// The number of nodes alone decides which elements are in which slice, so that all nodes agree.
// Each node chooses how many slices are under way. It grants what it receives ahead of time,
// because a grant waits behind data in the same direction.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/collective/plan.h"
#include "daemon/collective/plans/ring.h"

namespace mlxcomm::collective {

struct Slices {
  std::uint64_t count = 1;
  // Bytes of the longest block of a slice; each direction has one block for each node.
  std::uint64_t block_bytes = 0;

  Part At(std::uint64_t elements, std::uint64_t slice) const {
    return PartOf(elements, count, slice);
  }

  // How many must be under way so that no cable is idle: a slice is sent when another has come, so
  // the others must last for a round trip. In place, the second pass is granted only when the data
  // that it overwrites has been acknowledged, which takes half a round trip more; but then a slice
  // takes half the memory.
  std::uint64_t Window(const LinkCosts& costs, bool in_place) const {
    constexpr std::uint64_t kMost = 24;
    const std::uint64_t ways = in_place ? 3 : 2;
    const std::uint64_t bytes = ways * std::min(costs.latency_ns, kLatencyNsMost) *
                                std::min(costs.bytes_per_second / 1'000'000, kMegabytesMost) /
                                1'000;
    return std::min(
        {(in_place ? 4 : 2) + bytes / std::max(block_bytes, kChunkBytes), kMost, count});
  }

 private:
  // Sums stay far below 2^64.
  static constexpr std::uint64_t kLatencyNsMost = 1'000'000'000;
  static constexpr std::uint64_t kMegabytesMost = 1'000'000;
};

// For a ring all_reduce of this many elements. chosen_for: as many slices as for that number
// (PlanRequest).
inline Slices SlicesOfRing(int nodes, std::uint64_t elements, std::uint64_t element_bytes,
                           std::uint64_t chosen_for = 0) {
  // Input and output of a slice: a share of a core's second-level cache, or of its part of the last
  // level.
  constexpr std::uint64_t kSliceBytes = 2 * 1024 * 1024;
  // A plan costs time and memory, so slices are longer in very long operations and in large groups.
  // For all nodes together, and for each.
  constexpr std::uint64_t kStepsOfAllMost = 32 * 1024;
  constexpr std::uint64_t kStepsMost = 4 * 1024;
  constexpr std::uint64_t kStepsOfABlock = 8;  // At most, where nodes have several ranks.
  const auto blocks =
      static_cast<std::uint64_t>(nodes) * static_cast<std::uint64_t>(DirectionCount(nodes));
  // Whole chunks, because a short one costs as much as a long one.
  const std::uint64_t chunks = std::max<std::uint64_t>(kSliceBytes / kChunkBytes / blocks, 1);
  const std::uint64_t wanted = blocks * chunks * kChunkBytes / element_bytes;
  const std::uint64_t steps =
      std::min(kStepsMost, kStepsOfAllMost / static_cast<std::uint64_t>(nodes));
  const std::uint64_t most = std::max<std::uint64_t>(steps / (kStepsOfABlock * blocks), 1);
  Slices slices;
  const std::uint64_t chosen = chosen_for == 0 ? elements : chosen_for;
  slices.count = std::min((chosen + wanted - 1) / wanted, most);
  // Two would both be under way at once.
  if (slices.count <= 2) slices.count = 1;
  const Part one_way = PartOf(elements, static_cast<std::uint64_t>(DirectionCount(nodes)), 0);
  const Part longest =
      PartOf(slices.At(one_way.count, 0).count, static_cast<std::uint64_t>(nodes), 0);
  slices.block_bytes = longest.count * element_bytes;
  return slices;
}

}  // namespace mlxcomm::collective

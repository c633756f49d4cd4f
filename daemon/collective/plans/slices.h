// A long all_reduce is done in slices, a few at a time, so that the data under way fits the caches.
//
//   slice 0  ├─ reduce-scatter ─┼─ all-gather ─┤
//   slice 1     ├───────────────┼──────────────┤
//   slice 2                                    ├───  sent when slice 0 has arrived
//
// In one slice, the second pass would send data that has left the caches.
//
// A slice's elements depend only on the number of nodes. Each node chooses how many slices are
// under way, and grants receives in advance, because a grant queues behind data.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/collective/plan.h"
#include "daemon/collective/plans/ring.h"

namespace mlxcomm::collective {

struct Slices {
  std::uint64_t count = 1;
  // The longest block of a slice; each direction has one block per node.
  std::uint64_t block_bytes = 0;

  Part At(std::uint64_t elements, std::uint64_t slice) const {
    return PartOf(elements, count, slice);
  }

  // Returns how many keep every cable busy: a slice is sent when another has arrived, so the others
  // must last a round trip. In place, the second pass waits for acknowledgements; but a slice takes
  // half the memory.
  std::uint64_t Window(const LinkCosts& costs, bool in_place) const {
    constexpr std::uint64_t kMax = 24;
    const std::uint64_t trips = in_place ? 3 : 2;
    const std::uint64_t bytes = trips * std::min(costs.latency_ns, kLatencyNsMax) *
                                std::min(costs.bytes_per_second / 1'000'000, kMegabytesMax) / 1'000;
    return std::min({(in_place ? 4 : 2) + bytes / std::max(block_bytes, kChunkBytes), kMax, count});
  }

 private:
  // Sums stay far below 2^64.
  static constexpr std::uint64_t kLatencyNsMax = 1'000'000'000;
  static constexpr std::uint64_t kMegabytesMax = 1'000'000;
};

inline Slices SlicesOfRing(int nodes, std::uint64_t elements, std::uint64_t element_bytes,
                           std::uint64_t chosen_for = 0) {
  // A slice's input and output: a share of a core's second-level cache, or of its part of the last
  // level.
  constexpr std::uint64_t kSliceBytes = 2 * 1024 * 1024;
  // A plan costs time and memory, so very long operations and large groups have longer slices.
  constexpr std::uint64_t kStepsMaxAllNodes = 32 * 1024;
  constexpr std::uint64_t kStepsMaxPerNode = 4 * 1024;
  constexpr std::uint64_t kStepsPerBlock = 8;  // The maximum, if nodes have several ranks.
  const auto blocks =
      static_cast<std::uint64_t>(nodes) * static_cast<std::uint64_t>(DirectionCount(nodes));
  // Whole chunks, because a short chunk costs as much as a long one.
  const std::uint64_t chunks = std::max<std::uint64_t>(kSliceBytes / kChunkBytes / blocks, 1);
  const std::uint64_t wanted = blocks * chunks * kChunkBytes / element_bytes;
  const std::uint64_t steps =
      std::min(kStepsMaxPerNode, kStepsMaxAllNodes / static_cast<std::uint64_t>(nodes));
  const std::uint64_t most = std::max<std::uint64_t>(steps / (kStepsPerBlock * blocks), 1);
  Slices slices;
  const std::uint64_t chosen = chosen_for == 0 ? elements : chosen_for;
  slices.count = std::min((chosen + wanted - 1) / wanted, most);
  // Both of two would be under way at once.
  if (slices.count <= 2) slices.count = 1;
  const Part one_way = PartOf(elements, static_cast<std::uint64_t>(DirectionCount(nodes)), 0);
  const Part longest =
      PartOf(slices.At(one_way.count, 0).count, static_cast<std::uint64_t>(nodes), 0);
  slices.block_bytes = longest.count * element_bytes;
  return slices;
}

}  // namespace mlxcomm::collective

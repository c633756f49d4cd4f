// What the cost of a plan depends on (plans/estimate.h). The figures of a group's links are measured
// once and frozen into the group when it forms, so the choice is the same on every node and at any time.
//
// Owner: Group holds the figures. Thread: any. Memory: plain values.
#pragma once

#include <cstdint>

#include "daemon/collective/signature.h"

namespace mlxcomm::collective {

// Of the slowest link between two nodes of the group.
struct LinkCosts {
  std::uint64_t latency_ns = 30'000;
  std::uint64_t bytes_per_second = 4'000'000'000;  // Each direction; > 0.
  // How many links a node can fill at the same time: 1 behind one cable or one
  // switch port, 2 in a ring of cables, N-1 where each pair has its own.
  std::uint32_t links_per_node = 2;

  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

// What an operation's cost depends on; a barrier is an all_reduce of nothing.
struct Traffic {
  OperationKind kind = OperationKind::kAllReduce;
  std::uint32_t nodes = 2;  // >= 2
  std::uint32_t ranks = 2;
  // all_reduce, reduce, broadcast, all_to_all: of a rank's count (in the last: for each
  // other rank); otherwise the blocks of all ranks together.
  std::uint64_t bytes = 0;
};

}  // namespace mlxcomm::collective

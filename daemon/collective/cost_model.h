// What a plan would cost: the figures of a group's links, and the estimate by which
// every node chooses the same plan.
//
// The usual model of a message of n bytes: latency + n / bandwidth (Hockney, 1994).
// The figures are measured once and frozen into the group when it forms, so the
// choice never depends on who asks or when.
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

}  // namespace mlxcomm::collective

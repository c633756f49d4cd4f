// What a plan would cost: the figures of a group's links, and the estimate by which
// every node chooses the same plan.
//
// The usual model of a message of n bytes: latency + n / bandwidth (Hockney, 1994),
// and for each message the time that a node's engine takes to send it (the overhead
// of LogP, Culler et al., 1993). The figures are measured once and frozen into the
// group when it forms, so the choice never depends on who asks or when. Everything is
// counted in whole nanoseconds: no rounding that differs between machines.
//
// What ranks of one node do among themselves is the same for every plan and left out.
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

// What of an operation its cost depends on; a barrier is an all_reduce of nothing.
struct Traffic {
  OperationKind kind = OperationKind::kAllReduce;
  std::uint32_t nodes = 2;  // >= 2
  std::uint32_t ranks = 2;
  // all_reduce, reduce, broadcast, all_to_all: of a rank's count (in the last: for each
  // other rank); otherwise the blocks of all ranks together.
  std::uint64_t bytes = 0;
};

// For a kind that has the plan (plans/plans.h).
std::uint64_t EstimatedNs(const Traffic& traffic, PlanKind plan, const LinkCosts& costs);

}  // namespace mlxcomm::collective

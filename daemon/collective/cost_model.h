// The cost of a plan: the figures of a group's links, and the estimate by which every node chooses
// the same plan.
//
// The usual model of a message of n bytes: latency + n / bandwidth (Hockney, 1994),
// and for each message the time that a node's loop takes to send it (the overhead
// of LogP, Culler et al., 1993). The figures are measured once and frozen into the
// group when it forms, so the choice is the same on every node and at any time. Everything is
// counted in whole nanoseconds: no rounding that differs between machines.
//
// The work of one node's ranks among themselves is the same for every plan and left out.
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

// The time that one operation would take, with each plan between nodes.
class Estimate {
 public:
  Estimate(const Traffic& traffic, const LinkCosts& costs);

  std::uint64_t RingAllReduce() const;
  std::uint64_t RingReduceScatter() const;
  std::uint64_t RingAllGather() const;
  std::uint64_t RingBroadcast() const;
  std::uint64_t RingReduce() const { return RingBroadcast() + Combine(bytes_); }

  std::uint64_t ExchangeAllReduce() const;
  std::uint64_t ExchangeReduceScatter() const;
  std::uint64_t ExchangeReduce() const;
  std::uint64_t ExchangeBroadcast() const;
  std::uint64_t ExchangeAllToAll() const;
  std::uint64_t ExchangeBlocks() const;  // all_gather, gather, scatter

  std::uint64_t HalvingDoublingAllReduce() const;
  std::uint64_t HalvingReduceScatter() const { return DoublingAllGather() + Combine(bytes_); }
  std::uint64_t DoublingAllGather() const;

  std::uint64_t TreeAllReduce() const;
  std::uint64_t TreeReduce() const;
  std::uint64_t TreeBroadcast() const;
  std::uint64_t TreeBlocks() const;  // gather, scatter

 private:
  bool IsRingOfCables() const;
  std::uint64_t Hops(std::uint64_t distance) const;
  std::uint64_t Start(std::uint64_t bytes, std::uint64_t messages,
                      std::uint64_t distance = 1) const;
  std::uint64_t Transfer(std::uint64_t wanted) const;
  std::uint64_t Combine(std::uint64_t bytes) const;
  std::uint64_t ToAll(std::uint64_t bytes) const;
  template <typename Level>
  std::uint64_t OfTree(Level level) const;

  std::uint64_t nodes_;
  std::uint64_t ranks_;
  std::uint64_t bytes_;
  std::uint64_t latency_ns_;
  std::uint64_t byte_ps_;
  std::uint64_t links_;
  std::uint64_t depth_;  // The tree's.
  std::uint64_t ranks_per_node_;
  std::uint64_t ways_;  // Directions round a ring.
  std::uint64_t ways_used_;
};

}  // namespace mlxcomm::collective

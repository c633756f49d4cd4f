// The estimates by which every node chooses the same plan: a formula per planner.
//
// A message of n bytes takes latency + n / bandwidth (Hockney, 1994), and the time that a node's
// loop takes to send it (the overhead of LogP, Culler et al., 1993). All in whole nanoseconds, so
// that all machines round alike. The work of one node's ranks among themselves is the same for
// every plan and left out.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

class Estimate {
 public:
  Estimate(const Traffic& traffic, const LinkCosts& costs)
      : nodes_(traffic.nodes),
        ranks_(traffic.ranks),
        bytes_(std::min(traffic.bytes, kBytesMax)),
        latency_ns_(std::min(costs.latency_ns, kLatencyNsMax)),
        byte_ps_(std::clamp<std::uint64_t>(
            1'000'000'000'000 / std::max<std::uint64_t>(costs.bytes_per_second, 1), 1,
            kPicosecondsPerByteMax)),
        links_(std::max<std::uint64_t>(costs.links_per_node, 1)),
        depth_(static_cast<std::uint64_t>(std::bit_width(nodes_ - 1))),
        ranks_per_node_((ranks_ + nodes_ - 1) / nodes_),
        directions_(nodes_ > 2 ? 2 : 1),
        directions_used_(std::min(directions_, links_)) {}

  std::uint64_t RingAllReduce() const {
    const std::uint64_t share = bytes_ / nodes_;
    const std::uint64_t turns = 2 * (nodes_ - 1);
    return turns * Start(share / directions_, directions_) +
           Transfer(turns * share / directions_used_) + Combine(bytes_);
  }

  std::uint64_t RingReduceScatter() const {
    const std::uint64_t share = bytes_ / nodes_;
    return (nodes_ - 1) * Start(share / directions_, directions_ * ranks_per_node_) +
           Transfer((nodes_ - 1) * share / directions_used_) + Combine(bytes_);
  }

  std::uint64_t RingAllGather() const {
    const std::uint64_t share = bytes_ / nodes_;
    return nodes_ / 2 * Start(share, directions_ * ranks_per_node_) +
           Transfer((nodes_ - 1) * share / directions_used_);
  }

  std::uint64_t RingBroadcast() const {
    const std::uint64_t chunk = std::min(bytes_ / directions_, kChunkBytes);
    return (nodes_ - 1) * Start(bytes_ / directions_, directions_) +
           (nodes_ - 2) * Transfer(chunk) + Transfer(bytes_ / directions_used_);
  }

  std::uint64_t RingReduce() const { return RingBroadcast() + Combine(bytes_); }

  std::uint64_t ExchangeAllReduce() const {
    const std::uint64_t parts = EagerParts(bytes_);
    return Start(bytes_ / parts, (nodes_ - 1) * parts) + ToAll(bytes_) +
           // A pair combines all data twice, a ring once.
           Combine(ranks_ == 2 ? bytes_ + bytes_ / 2 : (nodes_ + 1) * bytes_);
  }

  std::uint64_t ExchangeReduceScatter() const { return ExchangeBlocks() + Combine(2 * bytes_); }

  std::uint64_t ExchangeReduce() const {
    return ExchangeBroadcast() + Combine((nodes_ + 1) * bytes_);
  }

  std::uint64_t ExchangeBroadcast() const { return Start(bytes_, nodes_ - 1) + ToAll(bytes_); }

  // all_to_all has no choice.
  std::uint64_t OnlyPlan() const { return 0; }

  std::uint64_t ExchangeBlocks() const {
    const std::uint64_t share = bytes_ / nodes_;
    return Start(share, (nodes_ - 1) * ranks_per_node_) + ToAll(share);
  }

  // --- halving and doubling: one partner at a time, so one link; distant partners share cables.

  std::uint64_t HalvingDoublingAllReduce() const {
    const std::uint64_t active = std::bit_floor(nodes_);
    std::uint64_t ns = 0;
    std::uint64_t part = bytes_;
    // The nearest partner gets the largest part.
    for (std::uint64_t distance = 1; distance < active; distance *= 2) {
      part /= 2;
      ns += 2 * (Start(part, 1, distance) + Transfer(part * Hops(distance)));
    }
    if (active != nodes_) ns += 2 * (Start(bytes_, 1) + Transfer(bytes_));
    return ns + Combine(bytes_);
  }

  std::uint64_t HalvingReduceScatter() const { return DoublingAllGather() + Combine(bytes_); }

  std::uint64_t DoublingAllGather() const {
    const std::uint64_t active = std::bit_floor(nodes_);
    std::uint64_t ns = 0;
    std::uint64_t part = bytes_;
    for (std::uint64_t distance = active / 2; distance > 0; distance /= 2) {
      part /= 2;
      ns += Start(part, 1, distance) + Transfer(part * Hops(distance));
    }
    return ns;
  }

  std::uint64_t TreeAllReduce() const {
    return OverTree([this](std::uint64_t, std::uint64_t starts, std::uint64_t hops) {
      return 2 * (starts + Transfer(bytes_ * hops)) + Combine(bytes_);
    });
  }

  std::uint64_t TreeReduce() const {
    return OverTree([this](std::uint64_t, std::uint64_t starts, std::uint64_t hops) {
      return starts + Transfer(bytes_ * hops) + Combine(bytes_);
    });
  }

  std::uint64_t TreeBroadcast() const {
    const std::uint64_t ns =
        OverTree([this](std::uint64_t, std::uint64_t starts, std::uint64_t hops) {
          return starts + Transfer(std::min(bytes_, kChunkBytes) * hops);
        });
    if (bytes_ <= kChunkBytes) return ns;
    // Pipelined; the root sends to all its children.
    return ns + Transfer((bytes_ - kChunkBytes) * depth_ / std::min(links_, depth_));
  }

  std::uint64_t TreeBlocks() const {
    // A subtree's blocks are packed and unpacked.
    return OverTree([this](std::uint64_t distance, std::uint64_t starts, std::uint64_t hops) {
      return starts + Transfer(bytes_ / nodes_ * distance * hops) +
             Combine(2 * bytes_ / nodes_ * distance);
    });
  }

 private:
  // One frame's path through the loop: queue, matching, rail.
  static constexpr std::uint64_t kMessageNs = 2'000;
  // One core reads, combines and writes about 10 GB/s.
  static constexpr std::uint64_t kCombinePicosecondsPerByte = 100;
  // Larger numbers do not change the choice, and sums stay far below 2^64.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kPicosecondsPerByteMax = 1'000'000;
  static constexpr std::uint64_t kLatencyNsMax = 1'000'000'000;

  // In a ring of cables, data for a distant node uses the cables in between.
  bool IsRingOfCables() const { return links_ == 2 && nodes_ > 3; }

  std::uint64_t Hops(std::uint64_t distance) const {
    if (!IsRingOfCables()) return 1;
    return std::max<std::uint64_t>(std::min(distance, nodes_ - distance), 1);
  }

  // The time until the first byte arrives; above the eager size, a grant comes first.
  std::uint64_t Start(std::uint64_t bytes, std::uint64_t messages,
                      std::uint64_t distance = 1) const {
    const std::uint64_t trips = IsEager(bytes) ? 1 : 2;
    return trips * latency_ns_ * Hops(distance) + messages * kMessageNs;
  }

  std::uint64_t Transfer(std::uint64_t wanted) const {
    const std::uint64_t bytes = std::min(wanted, 16 * kBytesMax);
    return bytes / 1000 * byte_ps_ + bytes % 1000 * byte_ps_ / 1000;
  }

  std::uint64_t Combine(std::uint64_t bytes) const {
    return bytes / 1000 * kCombinePicosecondsPerByte;
  }

  // To each other node, through all links. A ring of cables' distances add up to a quarter of the
  // square.
  std::uint64_t ToAll(std::uint64_t bytes) const {
    const std::uint64_t others = nodes_ - 1;
    const std::uint64_t hops = IsRingOfCables() ? nodes_ * nodes_ / 4 : others;
    return Transfer(bytes * hops / std::min(links_, others));
  }

  template <typename Level>
  std::uint64_t OverTree(Level level) const {
    std::uint64_t ns = 0;
    for (std::uint64_t distance = 1; distance < nodes_; distance *= 2) {
      ns += level(distance, Start(bytes_, 1, distance), Hops(distance));
    }
    return ns;
  }

  std::uint64_t nodes_;
  std::uint64_t ranks_;
  std::uint64_t bytes_;
  std::uint64_t latency_ns_;
  std::uint64_t byte_ps_;
  std::uint64_t links_;
  std::uint64_t depth_;  // The tree's.
  std::uint64_t ranks_per_node_;
  std::uint64_t directions_;  // Directions round a ring.
  std::uint64_t directions_used_;
};

}  // namespace mlxcomm::collective

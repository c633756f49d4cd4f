#include "daemon/collective/cost_model.h"

#include <algorithm>
#include <bit>

#include "daemon/collective/plan.h"

namespace mlxcomm::collective {
namespace {

// An engine's turn for one frame: taken from the queue, matched, handed to a rail.
constexpr std::uint64_t kMessageNs = 2'000;
// One core reads, combines and writes about 10 GB/s.
constexpr std::uint64_t kCombinePicosecondsPerByte = 100;
// Beyond these nothing changes in the choice, and sums stay far below 2^64.
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 40;
constexpr std::uint64_t kPicosecondsPerByteMax = 1'000'000;
constexpr std::uint64_t kLatencyNsMax = 1'000'000'000;

class Estimate {
 public:
  Estimate(const Traffic& traffic, const LinkCosts& costs)
      : traffic_(traffic),
        nodes_(traffic.nodes),
        bytes_(std::min(traffic.bytes, kBytesMax)),
        latency_ns_(std::min(costs.latency_ns, kLatencyNsMax)),
        byte_ps_(std::clamp<std::uint64_t>(
            1'000'000'000'000 / std::max<std::uint64_t>(costs.bytes_per_second, 1), 1,
            kPicosecondsPerByteMax)),
        links_(std::max<std::uint64_t>(costs.links_per_node, 1)),
        depth_(static_cast<std::uint64_t>(std::bit_width(nodes_ - 1))),
        ranks_per_node_((traffic.ranks + nodes_ - 1) / nodes_) {}

  std::uint64_t Ring() const {
    const std::uint64_t ways = nodes_ > 2 ? 2 : 1;
    const std::uint64_t used = std::min(ways, links_);
    const std::uint64_t share = bytes_ / nodes_;
    switch (traffic_.kind) {
      case OperationKind::kAllReduce: {
        const std::uint64_t turns = 2 * (nodes_ - 1);
        return turns * Start(share / ways, ways) + Transfer(turns * share / used) + Combine(bytes_);
      }
      case OperationKind::kReduceScatter:
        return (nodes_ - 1) * Start(share / ways, ways * ranks_per_node_) +
               Transfer((nodes_ - 1) * share / used) + Combine(bytes_);
      case OperationKind::kAllGather:
      case OperationKind::kAllGatherV:
        return nodes_ / 2 * Start(share, ways * ranks_per_node_) +
               Transfer((nodes_ - 1) * share / used);
      default: {
        const std::uint64_t chunk = std::min(bytes_ / ways, kChunkBytes);
        return (nodes_ - 1) * Start(bytes_ / ways, ways) + (nodes_ - 2) * Transfer(chunk) +
               Transfer(bytes_ / used) + CombineIfReduce(bytes_);
      }
    }
  }

  std::uint64_t Exchange() const {
    const std::uint64_t others = nodes_ - 1;
    const std::uint64_t share = bytes_ / nodes_;
    switch (traffic_.kind) {
      case OperationKind::kAllReduce: {
        const std::uint64_t parts = EagerParts(bytes_);
        return Start(bytes_ / parts, others * parts) + ToAll(bytes_) +
               // A pair combines all of it twice over, where a ring does once.
               Combine(traffic_.ranks == 2 ? bytes_ + bytes_ / 2 : (nodes_ + 1) * bytes_);
      }
      case OperationKind::kReduceScatter:
        return Start(share, others * ranks_per_node_) + ToAll(share) + Combine(2 * bytes_);
      case OperationKind::kReduce:
        return Start(bytes_, others) + ToAll(bytes_) + Combine((nodes_ + 1) * bytes_);
      case OperationKind::kBroadcast: return Start(bytes_, others) + ToAll(bytes_);
      case OperationKind::kAllToAll: {
        // A message for each pair of ranks.
        const std::uint64_t pairs = ranks_per_node_ * ranks_per_node_;
        return Start(bytes_, others * pairs) + ToAll(bytes_ * pairs);
      }
      default: return Start(share, others * ranks_per_node_) + ToAll(share);
    }
  }

  // One partner at a time, so one link; far partners share the cables between them.
  std::uint64_t HalvingDoubling() const {
    const bool both = traffic_.kind == OperationKind::kAllReduce;
    const std::uint64_t active = std::bit_floor(nodes_);
    std::uint64_t ns = 0;
    std::uint64_t piece = bytes_;
    for (std::uint64_t turn = 1; turn < active; turn *= 2) {
      piece /= 2;
      // The largest pieces go to the nearest partner in an all_reduce only.
      const std::uint64_t distance = both ? turn : active / turn / 2;
      ns += (both ? 2 : 1) * (Start(piece, 1, distance) + Transfer(piece * Hops(distance)));
    }
    if (both && active != nodes_) ns += 2 * (Start(bytes_, 1) + Transfer(bytes_));
    const bool reduces = both || traffic_.kind == OperationKind::kReduceScatter;
    return reduces ? ns + Combine(bytes_) : ns;
  }

  std::uint64_t Tree() const {
    std::uint64_t ns = 0;
    for (std::uint64_t distance = 1; distance < nodes_; distance *= 2) {
      const std::uint64_t starts = Start(bytes_, 1, distance);
      const std::uint64_t hops = Hops(distance);
      switch (traffic_.kind) {
        case OperationKind::kAllReduce:
          ns += 2 * (starts + Transfer(bytes_ * hops)) + Combine(bytes_);
          break;
        case OperationKind::kReduce:
          ns += starts + Transfer(bytes_ * hops) + Combine(bytes_);
          break;
        case OperationKind::kBroadcast:
          ns += starts + Transfer(std::min(bytes_, kChunkBytes) * hops);
          break;
        default:  // The blocks of a subtree; packed and unpacked.
          ns += starts + Transfer(bytes_ / nodes_ * distance * hops) +
                Combine(2 * bytes_ / nodes_ * distance);
          break;
      }
    }
    if (traffic_.kind == OperationKind::kBroadcast && bytes_ > kChunkBytes) {
      // Pipelined; the root sends to all of its children.
      ns += Transfer((bytes_ - kChunkBytes) * depth_ / std::min(links_, depth_));
    }
    return ns;
  }

 private:
  // In a ring of cables what goes to a far node passes the others' cables.
  bool RingOfCables() const { return links_ == 2 && nodes_ > 3; }
  std::uint64_t Hops(std::uint64_t distance) const {
    if (!RingOfCables()) return 1;
    return std::max<std::uint64_t>(std::min(distance, nodes_ - distance), 1);
  }
  // Until the first byte is there; above the eager size the receiver's grant comes first.
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
  std::uint64_t CombineIfReduce(std::uint64_t bytes) const {
    return traffic_.kind == OperationKind::kReduce ? Combine(bytes) : 0;
  }
  // So many bytes to each other node, through all links at once. In a ring of cables
  // the distances of all others add up to a quarter of the square.
  std::uint64_t ToAll(std::uint64_t bytes) const {
    const std::uint64_t others = nodes_ - 1;
    const std::uint64_t hops = RingOfCables() ? nodes_ * nodes_ / 4 : others;
    return Transfer(bytes * hops / std::min(links_, others));
  }

  const Traffic& traffic_;
  std::uint64_t nodes_;
  std::uint64_t bytes_;
  std::uint64_t latency_ns_;
  std::uint64_t byte_ps_;
  std::uint64_t links_;
  std::uint64_t depth_;  // Of the tree.
  std::uint64_t ranks_per_node_;
};

}  // namespace

std::uint64_t EstimatedNs(const Traffic& traffic, PlanKind plan, const LinkCosts& costs) {
  const Estimate estimate(traffic, costs);
  switch (plan) {
    case PlanKind::kExchange: return estimate.Exchange();
    case PlanKind::kHalvingDoubling: return estimate.HalvingDoubling();
    case PlanKind::kTree: return estimate.Tree();
    default: return estimate.Ring();
  }
}

}  // namespace mlxcomm::collective

#include "tests/verify/optimal_bytes.h"

#include <algorithm>
#include <bit>

#include "daemon/collective/plans/slices.h"

namespace mlxcomm::collective {
namespace {

class OptimalLink {
 public:
  OptimalLink(const WholeOperation& operation, const GroupLayout& layout, int from, int to)
      : operation_(operation),
        layout_(layout),
        nodes_(layout.node_count()),
        from_(from),
        to_(to),
        root_(layout.node_of(operation.signature.root)),
        kind_(operation.signature.kind),
        count_(IsEmpty(kind_) ? 0 : operation.signature.count),
        divides_(RowOf(kind_).input.extent == Extent::kBlocks),
        gathers_(RowOf(kind_).output.extent == Extent::kBlocks ||
                 RowOf(kind_).output.extent == Extent::kFirstCounts) {}

  std::uint64_t Ring() const {
    std::uint64_t bytes = 0;
    const int ways = nodes_ > 2 ? 2 : 1;
    for (int way = 0; way < ways; ++way) {
      const int next = way == 0 ? (from_ + 1) % nodes_ : (from_ + nodes_ - 1) % nodes_;
      if (next == to_) bytes += RingOneWay(way, ways);
    }
    return bytes;
  }

  std::uint64_t Exchange() const {
    if (divides_ && gathers_) {
      return Ranks(from_).size() * Ranks(to_).size() * Bytes(count_);
    }
    if (CountsPerRank(kind_) == 2) return VaryingPairs();
    if (IsToRoot(kind_) && to_ != root_) return 0;
    if (IsFromRoot(kind_) && from_ != root_) return 0;
    return has_blocks() ? BlocksOf(divides_ ? to_ : from_) : Bytes(count_);
  }

  std::uint64_t HalvingDoubling() const {
    if (!has_blocks()) return HalvingDoublingAllReduce();
    const int distance = from_ ^ to_;
    if (!std::has_single_bit(static_cast<unsigned>(distance))) return 0;
    const int node = divides_ ? to_ : from_;
    return BlocksOfRun(node & ~(distance - 1), distance);
  }

  std::uint64_t Tree() const {
    const int root = HasRoot(kind_) ? root_ : 0;
    const int from = (from_ - root + nodes_) % nodes_;
    const int to = (to_ - root + nodes_) % nodes_;
    const bool down = to != 0 && (to & (to - 1)) == from && !IsToRoot(kind_);
    const bool up = from != 0 && (from & (from - 1)) == to && !IsFromRoot(kind_);
    if (!up && !down) return 0;
    return has_blocks() ? BlocksOfSubtree(up ? from : to) : Bytes(count_);
  }

  std::uint64_t PointToPoint() const {
    const bool ends = layout_.node_of(operation_.ends.source_rank) == from_ &&
                      layout_.node_of(operation_.ends.destination_rank) == to_;
    return ends ? Bytes(count_) : 0;
  }

 private:
  bool has_blocks() const { return divides_ || gathers_; }
  std::uint64_t Bytes(std::uint64_t count) const { return count * operation_.element_bytes(); }
  const std::vector<std::uint32_t>& Ranks(int node) const {
    return layout_.ranks_on(static_cast<std::uint16_t>((node + nodes_) % nodes_));
  }
  std::uint64_t Half(std::uint64_t count, int way) const {
    return PartOf(count, 2, static_cast<std::uint64_t>(way)).count;
  }
  std::uint64_t BlockCount(std::uint32_t rank) const {
    return CountsPerRank(kind_) == 1 ? operation_.counts.front()[rank] : count_;
  }
  std::uint64_t BlocksOf(int node) const {
    std::uint64_t count = 0;
    for (const std::uint32_t rank : Ranks(node)) count += BlockCount(rank);
    return Bytes(count);
  }
  std::uint64_t BlocksOfRun(int first, int nodes) const {
    std::uint64_t bytes = 0;
    for (int i = 0; i < nodes; ++i) bytes += BlocksOf(first + i);
    return bytes;
  }
  std::uint64_t BlocksOfSubtree(int place) const {
    return BlocksOfRun(place + root_, std::min(place & -place, nodes_ - place));
  }
  std::uint64_t VaryingPairs() const {
    std::uint64_t count = 0;
    for (const std::uint32_t from : Ranks(from_)) {
      for (const std::uint32_t to : Ranks(to_)) count += operation_.counts[from][to];
    }
    return Bytes(count);
  }

  std::uint64_t RingOneWay(int way, int ways) const {
    const std::uint64_t part = ways == 2 ? Half(count_, way) : count_;
    if (IsFromRoot(kind_)) return to_ == root_ ? 0 : Bytes(part);
    if (IsToRoot(kind_)) return from_ == root_ ? 0 : Bytes(part);
    if (divides_) return Bytes(part) * (operation_.size() - Ranks(from_).size());
    if (gathers_) return RingAllGatherOneWay(way, ways);
    // All blocks twice, except the one with which the receiver begins, in each pass.
    const int place = way == 0 ? from_ : nodes_ - from_;
    const Slices slices =
        SlicesOfRing(nodes_, count_, operation_.element_bytes(), operation_.chosen_for);
    std::uint64_t elements = 2 * part;
    for (std::uint64_t slice = 0; slice < slices.count; ++slice) {
      for (const int ahead : {1, 2}) {
        elements -= PartOf(slices.At(part, slice).count, static_cast<std::uint64_t>(nodes_),
                           static_cast<std::uint64_t>((place + ahead) % nodes_))
                        .count;
      }
    }
    return Bytes(elements);
  }

  std::uint64_t RingAllGatherOneWay(int way, int ways) const {
    std::uint64_t bytes = 0;
    const int step = way == 0 ? -1 : 1;
    for (int back = 0; (back + 1) * 2 <= nodes_; ++back) {
      const bool halved = ways == 2 && (back + 1) * 2 == nodes_;
      for (const std::uint32_t rank : Ranks(from_ + step * back)) {
        bytes += Bytes(halved ? Half(BlockCount(rank), way) : BlockCount(rank));
      }
    }
    return bytes;
  }

  std::uint64_t HalvingDoublingAllReduce() const {
    const int active = static_cast<int>(std::bit_floor(static_cast<unsigned>(nodes_)));
    const int folded = 2 * (nodes_ - active);
    const auto folds = [&](int node) { return node < folded && node % 2 == 0; };
    if (folds(from_)) return to_ == from_ + 1 ? Bytes(count_) : 0;
    if (folds(to_)) return from_ == to_ + 1 ? Bytes(count_) : 0;
    const auto index = [&](int node) { return node < folded ? node / 2 : node - folded / 2; };
    const int difference = index(from_) ^ index(to_);
    if (!std::has_single_bit(static_cast<unsigned>(difference))) return 0;
    // The part that remains to be reduced when these two meet crosses the link between them: the
    // partner's half in the first pass, the other half in the second.
    std::uint64_t left = count_;
    for (int bit = 1; bit < difference; bit *= 2) {
      left = PartOf(left, 2, (index(from_) & bit) != 0 ? 1 : 0).count;
    }
    return Bytes(left);
  }

  const WholeOperation& operation_;
  const GroupLayout& layout_;
  int nodes_;
  int from_;
  int to_;
  int root_;
  OperationKind kind_;
  std::uint64_t count_;
  bool divides_;  // What a rank passes has a block for each rank,
  bool gathers_;  // and what it gets has one from each.
};

}  // namespace

std::uint64_t OptimalBytes(const WholeOperation& operation, const GroupLayout& layout,
                           PlanKind plan, int from, int to) {
  const OptimalLink link(operation, layout, from, to);
  switch (plan) {
    case PlanKind::kRing: return link.Ring();
    case PlanKind::kExchange: return link.Exchange();
    case PlanKind::kHalvingDoubling: return link.HalvingDoubling();
    case PlanKind::kTree: return link.Tree();
    default: return IsPointToPoint(operation.signature.kind) ? link.PointToPoint() : 0;
  }
}

}  // namespace mlxcomm::collective

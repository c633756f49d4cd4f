#include "daemon/collective/plans/blocks.h"
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"
#include "daemon/collective/plans/ring.h"

namespace mlxcomm::collective {
namespace {

// One direction: each node's blocks go half-way round. If the number of nodes is even, the opposite
// node gets half of each block from either side.
class OneWayAllGather {
 public:
  OneWayAllGather(PlanWriter& writer, const Blocks& blocks, int direction)
      : writer_(writer),
        blocks_(blocks),
        ring_{writer.nodes(), direction},
        place_(ring_.PlaceOf(writer.self())) {
    arrived_.assign(writer.layout().rank_count(), Step::kNone);
  }

  void Fill() {
    for (int hop = 1; hop * 2 <= ring_.nodes; ++hop) {
      for (const std::uint32_t rank : RanksOn(place_ - hop + 1)) Send(rank, hop);
      for (const std::uint32_t rank : RanksOn(place_ - hop)) Receive(rank, hop);
    }
  }

 private:
  const std::vector<std::uint32_t>& RanksOn(int place) const {
    return writer_.RanksOn(ring_.NodeAt(place));
  }
  // The bytes of the rank's block that make this hop in this direction.
  Part Share(std::uint32_t rank, int hop) const {
    const bool halved = hop * 2 == ring_.nodes && DirectionCount(ring_.nodes) == 2;
    if (!halved) return {0, blocks_.BytesOf(rank)};
    const Part half =
        PartOf(blocks_.ElementsOf(rank), 2, static_cast<std::uint64_t>(ring_.direction));
    return {half.offset * blocks_.element_bytes(), half.count * blocks_.element_bytes()};
  }

  void Send(std::uint32_t rank, int hop) {
    const Part share = Share(rank, hop);
    const Place block = hop == 1 ? InputOf(writer_.layout().LocalIndexOf(rank), 0)
                                 : OutputOf(0, blocks_.OffsetOf(rank));
    writer_.Send(ring_.NodeAt(place_ + 1), rank, Shifted(block, share.offset), share.count,
                 {arrived_[rank]});
  }

  void Receive(std::uint32_t rank, int hop) {
    const Part share = Share(rank, hop);
    const std::uint64_t offset = blocks_.OffsetOf(rank) + share.offset;
    arrived_[rank] =
        writer_.Receive(ring_.NodeAt(place_ - 1), rank, OutputOf(0, offset), share.count);
    writer_.Deliver(offset, share.count, arrived_[rank]);
  }

  PlanWriter& writer_;
  const Blocks& blocks_;
  Ring ring_;
  int place_;
  SmallTable<std::int32_t> arrived_;  // Keyed by rank: the step that received its block.
};

}  // namespace

void RingAllGather(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Blocks blocks(request);
  for (const std::uint32_t rank : writer.layout().local_ranks()) {
    const int local = writer.layout().LocalIndexOf(rank);
    writer.Copy(InputOf(local, 0), Everyones(OutputOf(0, blocks.OffsetOf(rank))),
                blocks.BytesOf(rank));
  }
  for (int direction = 0; direction < DirectionCount(writer.nodes()); ++direction)
    OneWayAllGather(writer, blocks, direction).Fill();
}

}  // namespace mlxcomm::collective

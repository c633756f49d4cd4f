#include <algorithm>

#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"
#include "daemon/collective/plans/ring.h"

namespace mlxcomm::collective {
namespace {

// Blocks are accumulated in slots of scratch memory. A few suffice for large blocks; eager ones
// have a slot per turn, so that none waits in the stash.
constexpr int kBlockSlots = 3;

class OneWayReduceScatter {
 public:
  OneWayReduceScatter(PlanWriter& writer, int direction, const Part& elements)
      : writer_(writer),
        ring_{writer.nodes(), direction},
        place_(ring_.PlaceOf(writer.self())),
        offset_(elements.offset * writer.element_bytes()),
        bytes_(elements.count * writer.element_bytes()) {
    for (int node = 0; node < ring_.nodes; ++node) {
      blocks_max_ = std::max(blocks_max_, writer.RanksOn(node).size());
    }
    slots_ = IsEager(bytes_) ? ring_.nodes : std::min(kBlockSlots, ring_.nodes);
    const auto slots = static_cast<std::uint64_t>(slots_);
    scratch_ = writer.plan().AddScratch(slots * blocks_max_ * bytes_);
    last_reader_.assign(slots * blocks_max_, Step::kNone);
  }

  // Turn t: the blocks of the ranks t+1 places back, finally this node's own.
  void Fill() {
    for (int turn = 0; turn < ring_.nodes; ++turn) {
      const int node = ring_.NodeAt(place_ - 1 - turn);
      std::size_t index = 0;
      for (const std::uint32_t rank : writer_.RanksOn(node)) FillBlock(turn, rank, index++);
    }
  }

 private:
  void FillBlock(int turn, std::uint32_t rank, std::size_t index) {
    const bool last = turn == ring_.nodes - 1;
    const std::size_t slot = static_cast<std::size_t>(turn % slots_) * blocks_max_ + index;
    const Place work = ScratchAt(scratch_ + slot * bytes_);
    std::int32_t& last_reader = last_reader_[slot];
    PlanWriter::Value value =
        writer_.Contribution(rank * writer_.bytes() + offset_, work, bytes_, {last_reader});
    if (turn > 0) {
      const Place to = last ? OutputOf(writer_.layout().LocalIndexOf(rank), offset_) : work;
      value = {to, writer_.ReduceReceived(ring_.NodeAt(place_ - 1), rank, value.place, to, bytes_,
                                          {value.step, last ? Step::kNone : last_reader})};
    }
    if (last) {
      writer_.Finish(value.step);
    } else {
      last_reader = writer_.Send(ring_.NodeAt(place_ + 1), rank, value.place, bytes_, {value.step});
    }
  }

  PlanWriter& writer_;
  Ring ring_;
  int place_;
  std::uint64_t offset_;  // Applies to every block.
  std::uint64_t bytes_;
  int slots_ = 1;
  std::size_t blocks_max_ = 0;
  std::uint64_t scratch_ = 0;
  SmallTable<std::int32_t> last_reader_;  // Indexed by slot and block.
};

}  // namespace

void RingReduceScatter(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  ForEachDirection(writer.nodes(), writer.count(), [&](int direction, const Part& elements) {
    OneWayReduceScatter(writer, direction, elements).Fill();
  });
}

}  // namespace mlxcomm::collective

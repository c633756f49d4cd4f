// The two halves of halving and doubling as separate plans. A message holds the blocks of several
// nodes, so there must be a power of two of nodes with contiguous ranks.
#include <bit>

#include "daemon/collective/plans/blocks.h"
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

struct NodeRange {
  int begin = 0;
  int end = 0;
};
struct Bytes {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
};

Bytes BytesOf(const PlanWriter& writer, const Blocks& blocks, const NodeRange& range) {
  const std::uint32_t last = writer.RanksOn(range.end - 1).back();
  return {blocks.OffsetOf(writer.RanksOn(range.begin).front()),
          blocks.OffsetOf(last) + blocks.BytesOf(last)};
}

class Halving {
 public:
  Halving(const PlanRequest& request, Plan& plan) : writer_(request, plan), blocks_(request) {}

  void Fill() {
    const std::uint64_t all = writer_.bytes() * writer_.layout().rank_count();
    NodeRange range{0, writer_.nodes()};
    if (writer_.several_local()) {
      scratch_ = writer_.plan().AddScratch(all);
      value_ = {ScratchAt(scratch_), writer_.Combine(0, ScratchAt(scratch_), all)};
    } else {
      value_ = {InputOf(0, 0), Step::kNone};
    }
    for (std::uint64_t tag = 0; range.end - range.begin > 1; ++tag) Halve(tag, range);
    if (!writer_.several_local()) return;
    for (const std::uint32_t rank : writer_.layout().local_ranks()) {
      writer_.Copy(Shifted(value_.place, blocks_.OffsetOf(rank) - value_begin_),
                   OutputOf(writer_.layout().LocalIndexOf(rank), 0), writer_.bytes(),
                   {value_.step});
    }
  }

 private:
  void Halve(std::uint64_t tag, NodeRange& range) {
    const int middle = (range.begin + range.end) / 2;
    const int distance = middle - range.begin;
    const bool upper = writer_.self() >= middle;
    const NodeRange low{range.begin, middle};
    const NodeRange high{middle, range.end};
    const Bytes given = BytesOf(writer_, blocks_, upper ? low : high);
    range = upper ? high : low;
    const Bytes kept = BytesOf(writer_, blocks_, range);
    const int partner = writer_.self() + (upper ? -distance : distance);
    writer_.Send(partner, tag, Shifted(value_.place, given.begin - value_begin_), given.size(),
                 {value_.step});
    const Place operand = Shifted(value_.place, kept.begin - value_begin_);
    const bool last = distance == 1;
    Place to = operand;
    if (!writer_.several_local()) {
      if (tag == 0 && !last) scratch_ = writer_.plan().AddScratch(kept.size());
      if (tag == 0) to = ScratchAt(scratch_);
      if (last) to = OutputOf(0, 0);
    }
    value_ = {to, writer_.ReduceReceived(partner, tag, operand, to, kept.size(), {value_.step})};
    value_begin_ = kept.begin;
    if (last) writer_.Finish(value_.step);
  }

  PlanWriter writer_;
  Blocks blocks_;
  PlanWriter::Value value_;        // Holds what this node has reduced so far.
  std::uint64_t value_begin_ = 0;  // Its first byte in the inputs.
  std::uint64_t scratch_ = 0;
};

}  // namespace

bool CanHalve(const GroupLayout& layout) {
  if (!std::has_single_bit(static_cast<unsigned>(layout.node_count()))) return false;
  for (std::uint32_t rank = 1; rank < layout.rank_count(); ++rank) {
    if (layout.node_of(rank) < layout.node_of(rank - 1)) return false;
  }
  return true;
}

void HalvingReduceScatter(const PlanRequest& request, Plan& plan) { Halving(request, plan).Fill(); }

void DoublingAllGather(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Blocks blocks(request);
  const int self = writer.self();
  SmallTable<std::int32_t> complete;  // Steps before the next send.
  for (const std::uint32_t rank : writer.layout().local_ranks()) {
    complete.push_back(writer.Copy(InputOf(writer.layout().LocalIndexOf(rank), 0),
                                   Everyones(OutputOf(0, blocks.OffsetOf(rank))),
                                   blocks.BytesOf(rank)));
  }
  std::uint64_t tag = 0;
  for (int distance = 1; distance < writer.nodes(); distance *= 2) {
    const int first = self & ~(distance - 1);
    const int other = first ^ distance;
    const Bytes given = BytesOf(writer, blocks, {first, first + distance});
    const Bytes taken = BytesOf(writer, blocks, {other, other + distance});
    if (distance == 1 && !writer.several_local()) {
      writer.Send(self ^ distance, tag, InputOf(0, 0), given.size());
    } else {
      writer.SendAfterAll(self ^ distance, tag, OutputOf(0, given.begin), given.size(), complete);
    }
    const std::int32_t received =
        writer.Receive(self ^ distance, tag, OutputOf(0, taken.begin), taken.size());
    writer.Deliver(taken.begin, taken.size(), received);
    complete.push_back(received);
    ++tag;
  }
}

}  // namespace mlxcomm::collective

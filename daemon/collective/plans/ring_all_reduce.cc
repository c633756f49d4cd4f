#include <algorithm>

#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"
#include "daemon/collective/plans/ring.h"
#include "daemon/collective/plans/slices.h"

namespace mlxcomm::collective {
namespace {

// The slices of a ring, the same in both directions.
struct Schedule {
  Slices slices;
  std::uint64_t window = 1;   // Slices under way.
  std::uint64_t granted = 1;  // Slices with posted receives: more, because a grant takes time.
  // Unfinished blocks are in the output, not in scratch memory.
  bool overwrites = false;
  std::uint64_t stride = 0;  // Bytes between blocks in scratch memory.
};

Schedule ScheduleOf(const PlanWriter& writer, const PlanRequest& request) {
  // Per direction.
  constexpr std::uint64_t kUnfinishedBytesMax = 32 * 1024 * 1024;
  const std::uint64_t chosen_for = request.chosen_for == 0 ? writer.count() : request.chosen_for;
  const Slices chosen = SlicesOfRing(writer.nodes(), chosen_for, writer.element_bytes());
  Schedule schedule;
  schedule.slices =
      SlicesOfRing(writer.nodes(), writer.count(), writer.element_bytes(), chosen_for);
  schedule.stride = InLines(schedule.slices.block_bytes);
  const auto choose = [&](bool overwrites) {
    schedule.overwrites = overwrites;
    schedule.window = chosen.Window(request.costs, overwrites);
    schedule.granted = std::min(2 * schedule.window, chosen.count);
  };
  choose(!writer.input_stays());
  const auto turns = static_cast<std::uint64_t>(writer.nodes() - 2);
  const std::uint64_t unfinished = schedule.granted * turns * InLines(chosen.block_bytes);
  if (!schedule.overwrites && unfinished > kUnfinishedBytesMax) choose(true);
  return schedule;
}

// One direction, slice by slice (slices.h). Blocks are accumulated in the first local rank's
// output.
//
// Data must be acknowledged before it is overwritten. So, unless in place or too large, unfinished
// blocks are in scratch memory: results may arrive early, and no link is idle between the passes.
class OneWayAllReduce {
 public:
  OneWayAllReduce(PlanWriter& writer, const Schedule& schedule, int direction, const Part& elements)
      : writer_(writer),
        schedule_(schedule),
        ring_{writer.nodes(), direction},
        place_(ring_.PlaceOf(writer.self())),
        elements_(elements) {
    const std::uint64_t slots = schedule.overwrites ? 0 : schedule.granted * Turns();
    if (slots > 0) scratch_ = writer.plan().AddScratch(slots * schedule.stride);
    scratch_sent_.assign(slots, Step::kNone);
    complete_.assign(2 * schedule.window + 1, Step::kNone);
  }

  void Fill(std::uint64_t slice) {
    slice_ = slice;
    const Part part = schedule_.slices.At(elements_.count, slice);
    slice_elements_ = {elements_.offset + part.offset, part.count};
    contributions_.clear();
    // The next slice may be combined while these are under way.
    const std::int32_t earlier = CompleteBefore(schedule_.window + 1);
    for (int block = 0; block < ring_.nodes; ++block) {
      contributions_.push_back(
          writer_.Contribution(OffsetOf(block), Result(block), BytesOf(block), {earlier}));
    }
    sent_.assign(static_cast<std::size_t>(ring_.nodes), Step::kNone);
    complete_[slice % complete_.size()] = AllGather(ReduceScatter());
  }

 private:
  Part PartAt(int block) const {
    return PartOf(slice_elements_.count, static_cast<std::uint64_t>(ring_.nodes),
                  static_cast<std::uint64_t>(block));
  }
  std::uint64_t OffsetOf(int block) const {
    return (slice_elements_.offset + PartAt(block).offset) * writer_.element_bytes();
  }
  std::uint64_t BytesOf(int block) const { return PartAt(block).count * writer_.element_bytes(); }
  Place Result(int block) const { return OutputOf(0, OffsetOf(block)); }
  // A reduce-scatter's turns that leave a block unfinished.
  std::size_t Turns() const { return static_cast<std::size_t>(ring_.nodes - 2); }
  std::size_t Slot(int s) const {
    return static_cast<std::size_t>(slice_ % schedule_.granted) * Turns() +
           static_cast<std::size_t>(s);
  }
  int Next() const { return ring_.NodeAt(place_ + 1); }
  int Previous() const { return ring_.NodeAt(place_ - 1); }
  std::uint64_t Tag(int turn) const {
    return slice_ * 2 * static_cast<std::uint64_t>(ring_.nodes - 1) +
           static_cast<std::uint64_t>(turn);
  }
  // The step that completed an earlier slice here.
  std::int32_t CompleteBefore(std::uint64_t slices) const {
    if (slice_ < slices) return Step::kNone;
    return complete_[(slice_ - slices) % complete_.size()];
  }

  // Turn s: sends block place-s, adds what arrives to place-s-1. Returns the step that completes
  // place+1.
  std::int32_t ReduceScatter() {
    PlanWriter::Value value = contributions_[static_cast<std::size_t>(place_)];
    for (int s = 0; s + 1 < ring_.nodes; ++s) {
      const int outgoing = ring_.Around(place_ - s);
      const int incoming = ring_.Around(place_ - s - 1);
      const std::int32_t sent =
          writer_.Send(Next(), Tag(s), value.place, BytesOf(outgoing),
                       {value.step, s == 0 ? CompleteBefore(schedule_.window) : Step::kNone});
      sent_[static_cast<std::size_t>(outgoing)] = sent;
      const PlanWriter::Value operand = contributions_[static_cast<std::size_t>(incoming)];
      Place to = Result(incoming);
      std::int32_t last_reader = Step::kNone;
      if (!schedule_.overwrites && s > 0) scratch_sent_[Slot(s - 1)] = sent;
      if (!schedule_.overwrites && s + 2 < ring_.nodes) {
        to = ScratchAt(scratch_ + Slot(s) * schedule_.stride);
        last_reader = scratch_sent_[Slot(s)];
      }
      value = {to, writer_.ReduceReceived(
                       Previous(), Tag(s), operand.place, to, BytesOf(incoming),
                       {operand.step, last_reader, CompleteBefore(schedule_.granted)})};
    }
    return writer_.Finish(value.step);
  }

  std::int32_t AllGather(std::int32_t received) {
    const int complete = ring_.Around(place_ + 1);
    writer_.Deliver(OffsetOf(complete), BytesOf(complete), received);
    for (int s = 0; s + 1 < ring_.nodes; ++s) {
      const int turn = ring_.nodes - 1 + s;
      const int outgoing = ring_.Around(place_ + 1 - s);
      const int incoming = ring_.Around(place_ - s);
      writer_.Send(Next(), Tag(turn), Result(outgoing), BytesOf(outgoing), {received});
      // Overwrites data that was sent from there.
      const std::int32_t over =
          schedule_.overwrites ? sent_[static_cast<std::size_t>(incoming)] : Step::kNone;
      received = writer_.Receive(Previous(), Tag(turn), Result(incoming), BytesOf(incoming),
                                 {over, CompleteBefore(schedule_.granted)});
      writer_.Deliver(OffsetOf(incoming), BytesOf(incoming), received);
    }
    return received;
  }

  PlanWriter& writer_;
  const Schedule& schedule_;
  Ring ring_;
  int place_;
  Part elements_;
  std::uint64_t scratch_ = 0;
  SmallTable<std::int32_t> scratch_sent_;  // Keyed by slot: its last reader.
  SmallTable<std::int32_t> complete_;      // By slice, for the last ones.
  std::uint64_t slice_ = 0;
  Part slice_elements_;
  SmallTable<PlanWriter::Value> contributions_;  // Indexed by block.
  SmallTable<std::int32_t> sent_;                // By block, in the reduce-scatter.
};

}  // namespace

void RingAllReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Schedule schedule = ScheduleOf(writer, request);
  absl::InlinedVector<OneWayAllReduce, 2> directions;
  ForEachDirection(writer.nodes(), writer.count(), [&](int direction, const Part& elements) {
    directions.emplace_back(writer, schedule, direction, elements);
  });
  for (std::uint64_t slice = 0; slice < schedule.slices.count; ++slice) {
    for (OneWayAllReduce& direction : directions) direction.Fill(slice);
  }
}

}  // namespace mlxcomm::collective

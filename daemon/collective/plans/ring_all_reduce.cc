#include <algorithm>

#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"
#include "daemon/collective/plans/ring.h"
#include "daemon/collective/plans/slices.h"

namespace mlxcomm::collective {
namespace {

// How a ring handles its slices, the same in both directions.
struct Course {
  Slices slices;
  std::uint64_t window = 1;   // Slices that are under way.
  std::uint64_t granted = 1;  // Slices whose receives are posted: more, because a grant takes time.
  // Unfinished blocks lie in the output and not in scratch memory.
  bool overwrites = false;
  std::uint64_t stride = 0;  // Of blocks in scratch memory, in bytes.
};

Course CourseOf(const PlanWriter& writer, const PlanRequest& request) {
  // Scratch memory for one direction.
  constexpr std::uint64_t kUnfinishedBytesMax = 32 * 1024 * 1024;
  const std::uint64_t chosen_for = request.chosen_for == 0 ? writer.count() : request.chosen_for;
  const Slices chosen = SlicesOfRing(writer.nodes(), chosen_for, writer.element_bytes());
  Course course;
  course.slices = SlicesOfRing(writer.nodes(), writer.count(), writer.element_bytes(), chosen_for);
  course.stride = InLines(course.slices.block_bytes);
  const auto choose = [&](bool overwrites) {
    course.overwrites = overwrites;
    course.window = chosen.Window(request.costs, overwrites);
    course.granted = std::min(2 * course.window, chosen.count);
  };
  choose(!writer.input_stays());
  const auto turns = static_cast<std::uint64_t>(writer.nodes() - 2);
  const std::uint64_t unfinished = course.granted * turns * InLines(chosen.block_bytes);
  if (!course.overwrites && unfinished > kUnfinishedBytesMax) choose(true);
  return course;
}

// One direction, for some of the elements, slice by slice (slices.h). The blocks are accumulated in
// the output of the first local rank; the first contribution of a node with one rank is read
// straight from its input, so nothing is copied on the way.
//
// Data must have been acknowledged before it is overwritten, which takes time on a full cable. So
// where nothing is in place, unfinished blocks lie in scratch memory, which the slices under way
// use in turns: then results may come from the beginning on, and no link is idle between the two
// passes. For very large blocks that time is a small part, and they would need much memory.
class OneWayAllReduce {
 public:
  OneWayAllReduce(PlanWriter& writer, const Course& course, int direction, const Part& elements)
      : writer_(writer),
        course_(course),
        ring_{writer.nodes(), direction},
        place_(ring_.PlaceOf(writer.self())),
        elements_(elements) {
    const std::uint64_t slots = course.overwrites ? 0 : course.granted * Turns();
    if (slots > 0) scratch_ = writer.plan().AddScratch(slots * course.stride);
    scratch_sent_.assign(slots, Step::kNone);
    complete_.assign(2 * course.window + 1, Step::kNone);
  }

  // In order.
  void Fill(std::uint64_t slice) {
    slice_ = slice;
    const Part part = course_.slices.At(elements_.count, slice);
    slice_elements_ = {elements_.offset + part.offset, part.count};
    contributions_.clear();
    // The next slice's may be combined while these are under way.
    const std::int32_t earlier = CompleteBefore(course_.window + 1);
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
  // Turns of a reduce-scatter that leave a block unfinished.
  std::size_t Turns() const { return static_cast<std::size_t>(ring_.nodes - 2); }
  // A place in scratch memory, for turn s of this slice.
  std::size_t Slot(int s) const {
    return static_cast<std::size_t>(slice_ % course_.granted) * Turns() +
           static_cast<std::size_t>(s);
  }
  int Next() const { return ring_.NodeAt(place_ + 1); }
  int Previous() const { return ring_.NodeAt(place_ - 1); }
  std::uint64_t Tag(int turn) const {
    return slice_ * 2 * static_cast<std::uint64_t>(ring_.nodes - 1) +
           static_cast<std::uint64_t>(turn);
  }
  // The step that completed here the slice this many before this one.
  std::int32_t CompleteBefore(std::uint64_t slices) const {
    if (slice_ < slices) return Step::kNone;
    return complete_[(slice_ - slices) % complete_.size()];
  }

  // Turn s: send block place-s, add the data that comes to block place-s-1. In the end this node
  // holds block place+1 complete; returns the step that completed it.
  std::int32_t ReduceScatter() {
    PlanWriter::Value value = contributions_[static_cast<std::size_t>(place_)];
    for (int s = 0; s + 1 < ring_.nodes; ++s) {
      const int outgoing = ring_.Around(place_ - s);
      const int incoming = ring_.Around(place_ - s - 1);
      const std::int32_t sent =
          writer_.Send(Next(), Tag(s), value.place, BytesOf(outgoing),
                       {value.step, s == 0 ? CompleteBefore(course_.window) : Step::kNone});
      sent_[static_cast<std::size_t>(outgoing)] = sent;
      const PlanWriter::Value operand = contributions_[static_cast<std::size_t>(incoming)];
      Place to = Result(incoming);
      std::int32_t last_reader = Step::kNone;
      if (!course_.overwrites && s > 0) scratch_sent_[Slot(s - 1)] = sent;
      if (!course_.overwrites && s + 2 < ring_.nodes) {
        to = ScratchAt(scratch_ + Slot(s) * course_.stride);
        last_reader = scratch_sent_[Slot(s)];
      }
      value = {
          to, writer_.ReduceReceived(Previous(), Tag(s), operand.place, to, BytesOf(incoming),
                                     {operand.step, last_reader, CompleteBefore(course_.granted)})};
    }
    return writer_.Finish(value.step);
  }

  // Returns the last step.
  std::int32_t AllGather(std::int32_t received) {
    const int complete = ring_.Around(place_ + 1);
    writer_.Deliver(OffsetOf(complete), BytesOf(complete), received);
    for (int s = 0; s + 1 < ring_.nodes; ++s) {
      const int turn = ring_.nodes - 1 + s;
      const int outgoing = ring_.Around(place_ + 1 - s);
      const int incoming = ring_.Around(place_ - s);
      writer_.Send(Next(), Tag(turn), Result(outgoing), BytesOf(outgoing), {received});
      // Over data that was sent from there before.
      const std::int32_t over =
          course_.overwrites ? sent_[static_cast<std::size_t>(incoming)] : Step::kNone;
      received = writer_.Receive(Previous(), Tag(turn), Result(incoming), BytesOf(incoming),
                                 {over, CompleteBefore(course_.granted)});
      writer_.Deliver(OffsetOf(incoming), BytesOf(incoming), received);
    }
    return received;
  }

  PlanWriter& writer_;
  const Course& course_;
  Ring ring_;
  int place_;
  Part elements_;
  std::uint64_t scratch_ = 0;
  SmallTable<std::int32_t> scratch_sent_;  // By slot: its last reader.
  SmallTable<std::int32_t> complete_;      // By slice, of the last ones.
  // Of this slice.
  std::uint64_t slice_ = 0;
  Part slice_elements_;
  SmallTable<PlanWriter::Value> contributions_;  // By block.
  SmallTable<std::int32_t> sent_;                // By block: in the reduce-scatter.
};

}  // namespace

void RingAllReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Course course = CourseOf(writer, request);
  absl::InlinedVector<OneWayAllReduce, 2> ways;
  ForEachDirection(writer.nodes(), writer.count(), [&](int direction, const Part& elements) {
    ways.emplace_back(writer, course, direction, elements);
  });
  for (std::uint64_t slice = 0; slice < course.slices.count; ++slice) {
    for (OneWayAllReduce& way : ways) way.Fill(slice);
  }
}

}  // namespace mlxcomm::collective

#include "daemon/collective/plans/circle.h"
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

// Of scratch memory for one way round.
constexpr std::uint64_t kUnfinishedBytesMax = 32 * 1024 * 1024;

// One way round, for some of the elements. The blocks are accumulated in the output
// of the first local rank; the first contribution of a node with one rank is read
// straight from its input, so nothing is copied on the way.
//
// What is written over must first have been acknowledged, which on a full cable takes its
// time. So where nothing is in place, blocks that are not finished lie in scratch memory:
// then results may come from the beginning on, and no link is idle between the two passes.
// Of very large blocks that time is a small part, and they would need much memory.
class OneWay {
 public:
  OneWay(PlanWriter& writer, int way, const Part& elements)
      : writer_(writer),
        circle_{writer.nodes(), way},
        place_(circle_.PlaceOf(writer.self())),
        elements_(elements),
        stride_((BytesOf(0) + 63) / 64 * 64) {
    const std::uint64_t unfinished = static_cast<std::uint64_t>(circle_.nodes - 2) * stride_;
    overwrites_ = !writer.input_stays() || unfinished > kUnfinishedBytesMax;
    if (!overwrites_ && unfinished > 0) scratch_ = writer.plan().AddScratch(unfinished);
  }

  void Fill() {
    for (int block = 0; block < circle_.nodes; ++block) {
      contributions_.push_back(
          writer_.Contribution(OffsetOf(block), Result(block), BytesOf(block)));
    }
    sent_.assign(static_cast<std::size_t>(circle_.nodes), Step::kNone);
    AllGather(ReduceScatter());
  }

 private:
  Part PartAt(int block) const {
    return PartOf(elements_.count, static_cast<std::uint64_t>(circle_.nodes),
                  static_cast<std::uint64_t>(block));
  }
  std::uint64_t OffsetOf(int block) const {
    return (elements_.offset + PartAt(block).offset) * writer_.element_bytes();
  }
  std::uint64_t BytesOf(int block) const { return PartAt(block).count * writer_.element_bytes(); }
  Place Result(int block) const { return OutputOf(0, OffsetOf(block)); }
  // Of turn s, which is not the last.
  Place Unfinished(int s, int block) const {
    if (overwrites_) return Result(block);
    return ScratchAt(scratch_ + static_cast<std::uint64_t>(s) * stride_);
  }
  int Next() const { return circle_.NodeAt(place_ + 1); }
  int Previous() const { return circle_.NodeAt(place_ - 1); }

  // Turn s: send block place-s, add what comes to block place-s-1. In the end this
  // node holds block place+1 complete; returns the step that completed it.
  std::int32_t ReduceScatter() {
    PlanWriter::Value value = contributions_[static_cast<std::size_t>(place_)];
    for (int s = 0; s + 1 < circle_.nodes; ++s) {
      const auto tag = static_cast<std::uint64_t>(s);
      const int outgoing = circle_.Around(place_ - s);
      const int incoming = circle_.Around(place_ - s - 1);
      sent_[static_cast<std::size_t>(outgoing)] =
          writer_.Send(Next(), tag, value.place, BytesOf(outgoing), {value.step});
      const PlanWriter::Value operand = contributions_[static_cast<std::size_t>(incoming)];
      const Place to = s + 2 < circle_.nodes ? Unfinished(s, incoming) : Result(incoming);
      value = {to, writer_.ReduceReceived(Previous(), tag, operand.place, to, BytesOf(incoming),
                                          {operand.step})};
    }
    return writer_.Finish(value.step);
  }

  void AllGather(std::int32_t received) {
    const int complete = circle_.Around(place_ + 1);
    writer_.Deliver(OffsetOf(complete), BytesOf(complete), received);
    for (int s = 0; s + 1 < circle_.nodes; ++s) {
      const auto tag = static_cast<std::uint64_t>(circle_.nodes - 1 + s);
      const int outgoing = circle_.Around(place_ + 1 - s);
      const int incoming = circle_.Around(place_ - s);
      writer_.Send(Next(), tag, Result(outgoing), BytesOf(outgoing), {received});
      // Over what was sent from there before.
      received = writer_.Receive(
          Previous(), tag, Result(incoming), BytesOf(incoming),
          {overwrites_ ? sent_[static_cast<std::size_t>(incoming)] : Step::kNone});
      writer_.Deliver(OffsetOf(incoming), BytesOf(incoming), received);
    }
  }

  PlanWriter& writer_;
  Circle circle_;
  int place_;
  Part elements_;
  std::uint64_t stride_;
  std::uint64_t scratch_ = 0;
  bool overwrites_ = false;
  SmallTable<PlanWriter::Value> contributions_;  // By block.
  SmallTable<std::int32_t> sent_;                // By block: of the reduce-scatter.
};

}  // namespace

void RingAllReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  ForEachWay(writer.nodes(), writer.count(), [&](int way, const Part& elements) {
    OneWay(writer, way, elements).Fill();
  });
}

}  // namespace mlxcomm::collective

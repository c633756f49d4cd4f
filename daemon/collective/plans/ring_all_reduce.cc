#include "daemon/collective/plans/circle.h"
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

// One way round, for some of the elements. The blocks are accumulated in the output
// of the first local rank; the first contribution of a node with one rank is read
// straight from its input, so nothing is copied on the way.
class OneWay {
 public:
  OneWay(PlanWriter& writer, int way, const Part& elements)
      : writer_(writer),
        circle_{writer.nodes(), way},
        place_(circle_.PlaceOf(writer.self())),
        elements_(elements) {}

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
  int Next() const { return circle_.NodeAt(place_ + 1); }
  int Previous() const { return circle_.NodeAt(place_ - 1); }

  // Turn s: send block place-s, add what comes to block place-s-1. In the end this
  // node holds block place+1 complete; returns the step that completed it.
  std::int32_t ReduceScatter() {
    std::int32_t received = Step::kNone;
    for (int s = 0; s + 1 < circle_.nodes; ++s) {
      const auto tag = static_cast<std::uint64_t>(s);
      const int outgoing = circle_.Around(place_ - s);
      const int incoming = circle_.Around(place_ - s - 1);
      const PlanWriter::Value own = contributions_[static_cast<std::size_t>(outgoing)];
      const PlanWriter::Value value = s == 0 ? own : PlanWriter::Value{Result(outgoing), received};
      sent_[static_cast<std::size_t>(outgoing)] =
          writer_.Send(Next(), tag, value.place, BytesOf(outgoing), {value.step});
      const PlanWriter::Value operand = contributions_[static_cast<std::size_t>(incoming)];
      received = writer_.ReduceReceived(Previous(), tag, operand.place, Result(incoming),
                                        BytesOf(incoming), {operand.step});
    }
    return writer_.Finish(received);
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
      received = writer_.Receive(Previous(), tag, Result(incoming), BytesOf(incoming),
                                 {sent_[static_cast<std::size_t>(incoming)]});
      writer_.Deliver(OffsetOf(incoming), BytesOf(incoming), received);
    }
  }

  PlanWriter& writer_;
  Circle circle_;
  int place_;
  Part elements_;
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

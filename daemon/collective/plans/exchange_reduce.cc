// Each node to each node, for operations that reduce: contributions go to slots of scratch memory,
// one per node, and are combined in the order of nodes. So every node computes the same bits.
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

class Slots {
 public:
  Slots(PlanWriter& writer, std::uint64_t bytes)
      : writer_(writer),
        bytes_(bytes),
        stride_(InLines(bytes)),
        scratch_(writer.plan().AddScratch(stride_ * static_cast<std::uint64_t>(writer.nodes()))) {}

  Place Of(int node) const {
    return ScratchAt(scratch_ + stride_ * static_cast<std::uint64_t>(node));
  }

  // Copies this node's contribution into its slot. Returns where to send it from.
  PlanWriter::Value Contribute(std::uint64_t offset) {
    const PlanWriter::Value value = writer_.Contribution(offset, Of(writer_.self()), bytes_);
    before_.push_back(value.step != Step::kNone
                          ? value.step
                          : writer_.Copy(value.place, Of(writer_.self()), bytes_));
    return value;
  }
  void Receive(int node, std::uint64_t tag) {
    before_.push_back(writer_.Receive(node, tag, Of(node), bytes_));
  }
  void CombineAfter(std::int32_t step) { before_.push_back(step); }
  void Combine(const Place& destination) {
    writer_.CombineSlots(Of(0), stride_, destination, bytes_, before_);
  }

 private:
  PlanWriter& writer_;
  std::uint64_t bytes_;
  std::uint64_t stride_;
  std::uint64_t scratch_;
  SmallTable<std::int32_t> before_;
};

struct Range {
  std::uint64_t tag;
  std::uint64_t offset;  // Bytes.
  std::uint64_t bytes;
};

// Two nodes with one rank each combine data into the output as it arrives; if that may be the
// input, into scratch memory, copied after the input has been sent. The receive must not wait for
// that: it would not solicit its frame, and two nodes without credit would wait for each other.
void ExchangeOfPair(PlanWriter& writer, const Range& range) {
  const int other = 1 - writer.self();
  const Place input = InputOf(0, range.offset);
  const Place output = OutputOf(0, range.offset);
  const bool aside = !writer.input_stays() && range.bytes > 0;
  const Place to = aside ? ScratchAt(writer.plan().AddScratch(range.bytes)) : output;
  const std::int32_t sent = writer.Send(other, range.tag, input, range.bytes);
  const std::int32_t received = writer.ReduceReceived(other, range.tag, input, to, range.bytes);
  writer.plan().steps[static_cast<std::size_t>(received)].received_first = other == 0;
  writer.Finish(received);
  if (aside) writer.Copy(to, output, range.bytes, {received, sent});
}

void ExchangeOfAll(PlanWriter& writer, const Range& range) {
  Slots slots(writer, range.bytes);
  const PlanWriter::Value own = slots.Contribute(range.offset);
  for (int i = 1; i < writer.nodes(); ++i) {
    const int node = (writer.self() + i) % writer.nodes();
    const std::int32_t sent = writer.Send(node, range.tag, own.place, range.bytes, {own.step});
    // The result may overwrite the input, which is sent in place.
    if (!writer.several_local()) slots.CombineAfter(sent);
  }
  for (int i = 1; i < writer.nodes(); ++i) {
    slots.Receive((writer.self() + i) % writer.nodes(), range.tag);
  }
  slots.Combine(Everyones(OutputOf(0, range.offset)));
}

}  // namespace

void ExchangeAllReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const bool is_pair = writer.nodes() == 2 && !writer.several_local();
  const std::uint64_t parts = EagerParts(writer.bytes());
  for (std::uint64_t i = 0; i < parts; ++i) {
    const Part part = PartOf(writer.count(), parts, i);
    const Range range{i, part.offset * writer.element_bytes(), part.count * writer.element_bytes()};
    is_pair ? ExchangeOfPair(writer, range) : ExchangeOfAll(writer, range);
  }
}

void ExchangeReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  if (writer.AtRoot()) {
    Slots slots(writer, writer.bytes());
    slots.Contribute(0);
    for (int node = 0; node < writer.nodes(); ++node) {
      if (node != writer.self()) slots.Receive(node, 0);
    }
    return slots.Combine(OutputOf(writer.RootLocal(), 0));
  }
  const Place work = ScratchAt(writer.several_local() ? plan.AddScratch(writer.bytes()) : 0);
  const PlanWriter::Value own = writer.Contribution(0, work, writer.bytes());
  writer.Send(writer.RootNode(), 0, own.place, writer.bytes(), {own.step});
}

void ExchangeReduceScatter(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const GroupLayout& layout = writer.layout();
  for (int i = 1; i < writer.nodes(); ++i) {
    const int node = (writer.self() + i) % writer.nodes();
    for (const std::uint32_t rank : writer.RanksOn(node)) {
      const Place work = ScratchAt(writer.several_local() ? plan.AddScratch(writer.bytes()) : 0);
      const PlanWriter::Value own =
          writer.Contribution(rank * writer.bytes(), work, writer.bytes());
      writer.Send(node, rank, own.place, writer.bytes(), {own.step});
    }
  }
  for (const std::uint32_t rank : layout.local_ranks()) {
    Slots slots(writer, writer.bytes());
    slots.Contribute(rank * writer.bytes());
    for (int i = 1; i < writer.nodes(); ++i) {
      slots.Receive((writer.self() + i) % writer.nodes(), rank);
    }
    slots.Combine(OutputOf(layout.LocalIndexOf(rank), 0));
  }
}

}  // namespace mlxcomm::collective

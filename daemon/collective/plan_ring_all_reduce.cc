#include <array>

#include "daemon/collective/plan_planners.h"

namespace mlxcomm::collective {
namespace {

// The ring seen from one node. Between the nodes the data is in the output of the
// first local rank ("lead"); with a single local rank the first contribution is
// read straight from its input, so nothing is copied on the way.
class RingAllReduce {
 public:
  RingAllReduce(const Signature& signature, const GroupLayout& layout, Plan& plan)
      : count_(signature.count),
        element_bytes_(DataTypeBytes(signature.type)),
        nodes_(layout.node_count()),
        self_(layout.self()),
        several_local_(layout.local_ranks().size() > 1),
        plan_(plan) {}

  void Fill() {
    if (nodes_ == 1) {
      CombineLocally(0, count_ * element_bytes_, Place::kEveryLocalRank);
      return;
    }
    if (several_local_) {
      for (std::uint16_t block = 0; block < nodes_; ++block) {
        combined_[block] = CombineLocally(OffsetOf(block), BytesOf(block), 0);
      }
    }
    const std::int32_t reduced = ReduceScatter();
    AllGather(reduced);
  }

 private:
  std::uint64_t OffsetOf(std::uint16_t block) const {
    return PartOf(count_, nodes_, block).offset * element_bytes_;
  }
  std::uint64_t BytesOf(std::uint16_t block) const {
    return PartOf(count_, nodes_, block).count * element_bytes_;
  }
  // Block numbers and nodes count round the ring.
  std::uint16_t Around(int index) const {
    const int nodes = nodes_;
    return static_cast<std::uint16_t>(((index % nodes) + nodes) % nodes);
  }
  Place Contribution(std::uint16_t block) const {
    const auto side = several_local_ ? Place::Side::kOutput : Place::Side::kInput;
    return {side, 0, OffsetOf(block)};
  }
  Place Result(std::uint16_t block) const { return {Place::Side::kOutput, 0, OffsetOf(block)}; }

  std::int32_t CombineLocally(std::uint64_t offset, std::uint64_t bytes, std::int32_t into) {
    Step step;
    step.kind = StepKind::kLocal;
    step.source = {Place::Side::kInput, Place::kEveryLocalRank, offset};
    step.destination = {Place::Side::kOutput, into, offset};
    step.bytes = bytes;
    return plan_.Add(step);
  }

  // Hands a finished block to the other local ranks.
  void Deliver(std::uint16_t block, std::int32_t after) {
    if (!several_local_) return;
    Step step;
    step.kind = StepKind::kLocal;
    step.source = Result(block);
    step.destination = {Place::Side::kOutput, Place::kEveryLocalRank, OffsetOf(block)};
    step.bytes = BytesOf(block);
    plan_.Add(step, {after});
  }

  std::int32_t Send(std::uint16_t block, int tag, const Place& source, std::int32_t after) {
    Step step;
    step.kind = StepKind::kSend;
    step.tag = static_cast<std::uint16_t>(tag);
    step.node = Around(self_ + 1);
    step.source = source;
    step.bytes = BytesOf(block);
    return plan_.Add(step, {after});
  }

  std::int32_t Receive(StepKind kind, std::uint16_t block, int tag, std::int32_t after) {
    Step step;
    step.kind = kind;
    step.tag = static_cast<std::uint16_t>(tag);
    step.node = Around(self_ - 1);
    step.source = Contribution(block);
    step.destination = Result(block);
    step.bytes = BytesOf(block);
    return plan_.Add(step, {after});
  }

  // Step s: send block self-s, add what comes to block self-s-1. In the end this
  // node holds block self+1 complete.
  std::int32_t ReduceScatter() {
    std::int32_t received = Step::kNone;
    for (int s = 0; s + 1 < nodes_; ++s) {
      const std::uint16_t outgoing = Around(self_ - s);
      const std::uint16_t incoming = Around(self_ - s - 1);
      if (s == 0) {
        Send(outgoing, s, Contribution(outgoing), combined_[outgoing]);
      } else {
        Send(outgoing, s, Result(outgoing), received);
      }
      received = Receive(StepKind::kReduceReceived, incoming, s, combined_[incoming]);
    }
    return received;
  }

  void AllGather(std::int32_t received) {
    Deliver(Around(self_ + 1), received);
    for (int s = 0; s + 1 < nodes_; ++s) {
      const int tag = nodes_ - 1 + s;
      const std::uint16_t outgoing = Around(self_ + 1 - s);
      const std::uint16_t incoming = Around(self_ - s);
      Send(outgoing, tag, Result(outgoing), received);
      // The block that comes holds our own contribution to it, so whatever this
      // node sent from there has arrived: it may be written over at once.
      received = Receive(StepKind::kReceive, incoming, tag, Step::kNone);
      Deliver(incoming, received);
    }
  }

  std::uint64_t count_;
  std::uint64_t element_bytes_;
  std::uint16_t nodes_;
  std::uint16_t self_;
  bool several_local_;
  Plan& plan_;
  // Which step combined a block locally; kNone where one rank is the whole node.
  std::array<std::int32_t, kNodesMax> combined_ = [] {
    std::array<std::int32_t, kNodesMax> none;
    none.fill(Step::kNone);
    return none;
  }();
};

}  // namespace

void PlanRingAllReduce(const Signature& signature, const GroupLayout& layout, Plan& plan) {
  RingAllReduce(signature, layout, plan).Fill();
}

}  // namespace mlxcomm::collective

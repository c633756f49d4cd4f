#include <algorithm>
#include <bit>

#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

// Halving uses the turns as tags; doubling starts here.
constexpr std::uint64_t kDoublingTag = 32;

// A power of two of nodes takes part. Each surplus node folds with another, in pairs from the first
// node on: the even one sends its contribution to the odd one and gets the result from it at the
// end.
class HalvingDoubling {
 public:
  HalvingDoubling(const PlanRequest& request, Plan& plan)
      : writer_(request, plan),
        active_(static_cast<int>(std::bit_floor(static_cast<unsigned>(writer_.nodes())))),
        pairs_(writer_.nodes() - active_) {}

  void Fill() {
    const int self = writer_.self();
    const std::uint64_t bytes = writer_.bytes();
    value_ = writer_.Contribution(0, OutputOf(0, 0), bytes);
    const bool folds = self < 2 * pairs_;
    if (folds && self % 2 == 0) return FillFolded();
    if (folds) {
      value_ = {OutputOf(0, 0), writer_.ReduceReceived(self - 1, 0, value_.place, OutputOf(0, 0),
                                                       bytes, {value_.step})};
    }
    index_ = folds ? self / 2 : self - pairs_;
    Halve();
    Double();
    if (folds) writer_.SendAfterAll(self - 1, 0, OutputOf(0, 0), bytes, complete_);
  }

 private:
  struct Turn {
    int partner = 0;
    Part given;  // The half that the partner continues with.
    std::int32_t sent = Step::kNone;
  };

  int NodeAt(int index) const { return index < pairs_ ? 2 * index + 1 : index + pairs_; }
  std::uint64_t BytesOf(const Part& part) const { return part.count * writer_.element_bytes(); }
  std::uint64_t OffsetOf(const Part& part) const { return part.offset * writer_.element_bytes(); }

  void FillFolded() {
    const int neighbour = writer_.self() + 1;
    const std::int32_t sent =
        writer_.Send(neighbour, 0, value_.place, writer_.bytes(), {value_.step});
    const std::int32_t received =
        writer_.Receive(neighbour, 0, OutputOf(0, 0), writer_.bytes(), {sent});
    writer_.Deliver(0, writer_.bytes(), received);
  }

  // The nearest partner first, because the first halves are the largest.
  void Halve() {
    mine_ = {0, writer_.count()};
    for (int distance = 1; distance < active_; distance *= 2) {
      const bool upper = (index_ & distance) != 0;
      const Part low = PartOf(mine_.count, 2, 0);
      const Part high = PartOf(mine_.count, 2, 1);
      Turn turn{NodeAt(index_ ^ distance), upper ? low : high};
      turn.given.offset += mine_.offset;
      const Part kept = upper ? high : low;
      mine_ = {mine_.offset + kept.offset, kept.count};
      const std::uint64_t tag = turns_.size();
      turn.sent = writer_.Send(turn.partner, tag, Shifted(value_.place, OffsetOf(turn.given)),
                               BytesOf(turn.given), {value_.step});
      value_ = {OutputOf(0, 0), writer_.ReduceReceived(
                                    turn.partner, tag, Shifted(value_.place, OffsetOf(mine_)),
                                    OutputOf(0, OffsetOf(mine_)), BytesOf(mine_), {value_.step})};
      turns_.push_back(turn);
    }
    complete_.push_back(writer_.Finish(value_.step));
    writer_.Deliver(OffsetOf(mine_), BytesOf(mine_), value_.step);
  }

  // The same partners in reverse order; the given halves return complete.
  void Double() {
    while (!turns_.empty()) {
      const Turn turn = turns_.back();
      turns_.pop_back();
      const std::uint64_t tag = kDoublingTag + turns_.size();
      writer_.SendAfterAll(turn.partner, tag, OutputOf(0, OffsetOf(mine_)), BytesOf(mine_),
                           complete_);
      const std::uint64_t offset = OffsetOf(turn.given);
      const std::int32_t received =
          writer_.Receive(turn.partner, tag, OutputOf(0, offset), BytesOf(turn.given), {turn.sent});
      writer_.Deliver(offset, BytesOf(turn.given), received);
      complete_.push_back(received);
      mine_ = {std::min(mine_.offset, turn.given.offset), mine_.count + turn.given.count};
    }
  }

  PlanWriter writer_;
  int active_;  // The power of two.
  int pairs_;
  int index_ = 0;  // Counts only the active ones.
  PlanWriter::Value value_;
  Part mine_;  // The range that this node reduces or has complete.
  SmallTable<Turn> turns_;
  SmallTable<std::int32_t> complete_;  // The steps that completed `mine_`.
};

}  // namespace

void HalvingDoublingAllReduce(const PlanRequest& request, Plan& plan) {
  HalvingDoubling(request, plan).Fill();
}

}  // namespace mlxcomm::collective

#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

// Pairs of ranks of two nodes have lower tags.
constexpr std::uint64_t kCheckTag = kLocalRanksMax * kLocalRanksMax;

std::uint64_t TagOf(std::size_t from_index, std::size_t to_index) {
  return from_index * kLocalRanksMax + to_index;
}

class AllToAll {
 public:
  AllToAll(const PlanRequest& request, Plan& plan)
      : request_(request),
        writer_(request, plan),
        layout_(request.layout),
        size_(layout_.rank_count()),
        locals_(layout_.local_ranks().size()),
        varying_(HasCounts(request.signature.kind)) {
    MakeOffsets();
  }

  void Fill() {
    for (int i = 1; i < writer_.nodes(); ++i) {
      const int node = (writer_.self() + i) % writer_.nodes();
      if (varying_) ExchangeCheck(node);
      SendTo(node, check_sent_);
      ReceiveFrom(node);
    }
    for (std::size_t from = 0; from < locals_; ++from) {
      for (std::size_t to = 0; to < locals_; ++to) {
        const std::uint32_t from_rank = layout_.local_ranks()[from];
        const std::uint32_t to_rank = layout_.local_ranks()[to];
        writer_.Copy(SourceOf(from, to_rank), DestinationOf(to, from_rank),
                     SentBytes(from, to_rank));
      }
    }
  }

 private:
  std::uint64_t SentCount(std::size_t local, std::uint32_t to) const {
    return varying_ ? request_.counts[local][to] : writer_.count();
  }
  std::uint64_t ReceivedCount(std::size_t local, std::uint32_t from) const {
    return varying_ ? request_.counts[local][size_ + from] : writer_.count();
  }
  std::uint64_t SentBytes(std::size_t local, std::uint32_t to) const {
    return SentCount(local, to) * writer_.element_bytes();
  }

  void MakeOffsets() {
    if (!varying_) return;
    for (std::size_t local = 0; local < locals_; ++local) {
      std::uint64_t source = 0;
      std::uint64_t destination = 0;
      for (std::uint32_t rank = 0; rank < size_; ++rank) {
        offsets_.push_back({source, destination});
        source += SentBytes(local, rank);
        destination += ReceivedCount(local, rank) * writer_.element_bytes();
      }
    }
  }
  Place SourceOf(std::size_t local, std::uint32_t to) const {
    return InputOf(static_cast<int>(local),
                   varying_ ? offsets_[local * size_ + to].source : to * writer_.bytes());
  }
  Place DestinationOf(std::size_t local, std::uint32_t from) const {
    return OutputOf(static_cast<int>(local),
                    varying_ ? offsets_[local * size_ + from].destination : from * writer_.bytes());
  }

  // Ranks here must send what ranks there expect: the first message carries a digest of these
  // counts.
  void ExchangeCheck(int node) {
    counts_.clear();
    for (std::size_t from = 0; from < locals_; ++from) {
      for (const std::uint32_t to : writer_.RanksOn(node)) counts_.push_back(SentCount(from, to));
    }
    check_sent_ = writer_.Send(node, kCheckTag, InputOf(0, 0), 0);
    SetCheck(check_sent_);
    counts_.clear();
    for (const std::uint32_t from : writer_.RanksOn(node)) {
      for (std::size_t to = 0; to < locals_; ++to) counts_.push_back(ReceivedCount(to, from));
    }
    SetCheck(writer_.Receive(node, kCheckTag, OutputOf(0, 0), 0));
  }
  void SetCheck(std::int32_t step) {
    writer_.plan().steps[static_cast<std::size_t>(step)].check = DigestOf(counts_);
  }

  void SendTo(int node, std::int32_t after) {
    for (std::size_t from = 0; from < locals_; ++from) {
      std::size_t to_index = 0;
      for (const std::uint32_t to : writer_.RanksOn(node)) {
        const std::uint64_t tag = TagOf(from, to_index++);
        if (varying_ && SentCount(from, to) == 0) continue;  // The other node knows it, too.
        writer_.Send(node, tag, SourceOf(from, to), SentBytes(from, to), {after});
      }
    }
  }

  void ReceiveFrom(int node) {
    std::size_t from_index = 0;
    for (const std::uint32_t from : writer_.RanksOn(node)) {
      for (std::size_t to = 0; to < locals_; ++to) {
        if (varying_ && ReceivedCount(to, from) == 0) continue;
        writer_.Receive(node, TagOf(from_index, to), DestinationOf(to, from),
                        ReceivedCount(to, from) * writer_.element_bytes());
      }
      ++from_index;
    }
  }

  struct Offsets {
    std::uint64_t source;
    std::uint64_t destination;
  };

  const PlanRequest& request_;
  PlanWriter writer_;
  const GroupLayout& layout_;
  std::uint32_t size_;
  std::size_t locals_;
  bool varying_;
  std::int32_t check_sent_ = Step::kNone;  // Goes to the current node.
  SmallTable<Offsets> offsets_;            // By local rank and rank, if they vary.
  SmallTable<std::uint64_t> counts_;       // Exchanged with the current node.
};

}  // namespace

void ExchangeAllToAll(const PlanRequest& request, Plan& plan) { AllToAll(request, plan).Fill(); }

}  // namespace mlxcomm::collective

// Decides whether a long wait can still end: asks every node of the group what its ranks wait for.
//
//   idle ──Begin──▶ open ──answers of all other nodes, or the time is up──▶ closed: Judge(awaited)
//
// An operation without a deadline waits as long as a rank that it waits for may still come. README.md,
// RollCall, says when no end is in sight. Other groups are unknown here: a rank that waits only in another
// group counts as waiting for nothing.
//
// Owner: Group. Thread: the loop's; time is an argument. Memory: one RankWait for each rank.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/collective/group_layout.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm::collective {

// The state of each rank, as its own node sees it.
using RankWaits = google::protobuf::RepeatedPtrField<v1::RankWait>;

class RollCall {
 public:
  static constexpr int kAwaitedMax = 256;  // Of one rank.
  static constexpr std::uint64_t kAnswerWaitNs = 2'000'000'000;
  // For how long a rank is stopped before nobody waits for it any longer; less where waits are short.
  static constexpr std::uint64_t kStoppedNs = 30'000'000'000;

  explicit RollCall(const GroupLayout& layout) : layout_(layout) {}

  // Returns a new number for each, which answers repeat.
  std::uint64_t Begin(const RankWaits& own, std::uint64_t now_ns);
  // A node reports its own ranks only; an answer to another roll call is dropped.
  void OnAnswer(std::uint16_t node, std::uint64_t number, const RankWaits& waits);
  void OnNodeLost(std::uint16_t node);
  // True once, when it closes.
  bool CloseIfDue(std::uint64_t now_ns);

  bool open() const { return open_; }
  std::uint64_t deadline_ns() const { return deadline_ns_; }

  enum class Prospect : std::uint8_t { kSomebodyMayCome, kStopped, kAllWait };
  struct Verdict {
    Prospect prospect = Prospect::kSomebodyMayCome;
    std::uint32_t rank = 0;              // The stopped one.
    std::vector<std::uint32_t> waiting;  // kAllWait: those that wait, and for whom is known.
    bool all_send = false;               // kAllWait: all of them wait in sends alone.
  };
  // For an operation that waits for these ranks; `long_ns`: from when on a rank has waited long.
  Verdict Judge(const std::vector<std::uint32_t>& awaited, std::uint64_t long_ns) const;
  // As it was when the last one closed; nullptr: not known.
  const v1::RankWait* LastOf(std::uint32_t rank) const {
    return rank < last_.size() && last_[rank].reported ? &last_[rank].wait : nullptr;
  }
  // Of a rank in Verdict::waiting.
  const auto& AwaitedBy(std::uint32_t rank) const { return known_[rank].wait.awaited(); }

 private:
  struct Known {
    bool reported = false;
    v1::RankWait wait;
  };
  static constexpr std::uint64_t kNotStopped = ~std::uint64_t{0};
  void Note(std::uint16_t node, const RankWaits& waits);

  const GroupLayout& layout_;
  bool open_ = false;
  std::uint64_t number_ = 0;
  std::uint64_t deadline_ns_ = 0;
  std::uint64_t closed_ns_ = 0;
  std::vector<Known> known_;               // By rank.
  std::vector<Known> last_;                // When it closed.
  std::vector<std::uint64_t> stopped_ns_;  // Since when, as far as is known; kNotStopped.
  std::vector<std::uint8_t> answered_;     // By node.
};

}  // namespace mlxcomm::collective

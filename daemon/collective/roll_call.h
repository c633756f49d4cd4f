// Decides whether a long wait can still end: asks every node of the group what its ranks wait for.
//
//   idle ──Begin──▶ open ──answers of all other nodes, or timeout──▶ closed: Judge(awaited)
//
// An operation without a deadline waits as long as a rank that it waits for may still call
// (README.md, RollCall). A rank that waits only in another group counts as waiting for nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/collective/group_layout.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm::collective {

using RankWaits = google::protobuf::RepeatedPtrField<v1::RankWait>;

class RollCall {
 public:
  static constexpr int kAwaitedMax = 256;  // Per rank.
  static constexpr std::uint64_t kAnswerWaitNs = 2'000'000'000;
  // After being stopped this long, or less if waits are short, a rank is no longer waited for.
  static constexpr std::uint64_t kStoppedNs = 30'000'000'000;

  explicit RollCall(const GroupLayout& layout) : layout_(layout) {}

  // Returns a new number, which answers repeat.
  std::uint64_t Begin(const RankWaits& own, std::uint64_t now_ns);
  // Drops answers to another roll call, and reports about other nodes' ranks.
  void OnAnswer(std::uint16_t node, std::uint64_t number, const RankWaits& waits);
  void OnNodeLost(std::uint16_t node);
  // Returns true once, when it closes.
  bool CloseIfDue(std::uint64_t now_ns);

  bool open() const { return open_; }
  std::uint64_t deadline_ns() const { return deadline_ns_; }

  enum class Prospect : std::uint8_t { kMayCome, kStopped, kAllWait };
  struct Verdict {
    Prospect prospect = Prospect::kMayCome;
    std::uint32_t rank = 0;              // The stopped rank.
    std::vector<std::uint32_t> waiting;  // kAllWait: the waiting ranks.
    bool all_send = false;               // kAllWait: all of them wait in sends only.
  };
  // `long_ns`: the duration of a long wait.
  Verdict Judge(const std::vector<std::uint32_t>& awaited, std::uint64_t long_ns) const;
  // The rank's state when the last roll call closed; nullptr: unknown.
  const v1::RankWait* LastOf(std::uint32_t rank) const {
    return rank < last_.size() && last_[rank].reported ? &last_[rank].wait : nullptr;
  }
  // Describes a rank in Verdict::waiting.
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
  std::vector<Known> known_;               // Indexed by rank.
  std::vector<Known> last_;                // Kept from the last closed one.
  std::vector<std::uint64_t> stopped_ns_;  // When first seen stopped, or kNotStopped.
  std::vector<std::uint8_t> answered_;     // Indexed by node.
};

}  // namespace mlxcomm::collective

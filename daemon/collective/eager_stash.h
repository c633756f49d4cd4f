// Eager frames that wait until their operation is ready, and the credit that limits their number.
//
//   sender: TakeCredit ─▶ frame ─▶ Put ─▶ Free ─credit─▶ ReturnCredit
//                         receiver: Starved ─▶ Solicit ─grant─▶ frame ─▶ PutSolicited ─▶ Free
//
// Per group, each node may have CreditOptions::each frames in transit to or waiting at another
// node; a frame beyond that is the sender's fault. See README.md, EagerStash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

inline constexpr std::uint32_t kEagerCredits = 16;
inline constexpr std::uint32_t kSolicitedMax = 1024;

// The same on all nodes.
struct CreditOptions {
  std::uint32_t each = kEagerCredits;  // Frames that one node may have at another; > 0.

  // Credits are returned in lots, so that not every frame causes another.
  constexpr std::uint32_t lot() const { return each < 4 ? 1 : each / 4; }
};

class EagerStash {
 public:
  explicit EagerStash(std::uint16_t nodes, const CreditOptions& options = {})
      : options_(options), peers_(nodes, Peer{.credits = options.each}) {}

  // Sending side.
  bool TakeCredit(std::uint16_t node);
  bool HasCredit(std::uint16_t node) const { return peers_[node].credits > 0; }
  [[nodiscard]] bool ReturnCredit(std::uint16_t node, std::uint64_t frames);

  // Receiving side. Returns -1 if the sender has exceeded its credit.
  std::int32_t Put(std::uint16_t node, std::span<const std::byte> payload);
  const std::byte* Data(std::int32_t slot) const { return slots_[Index(slot)].data.get(); }
  // Returns how many credits to give back to the slot's node now (0: none yet).
  std::uint32_t Free(std::int32_t slot);
  std::size_t held() const { return slots_.size() - free_.size(); }
  std::uint16_t NodeOf(std::int32_t slot) const { return slots_[Index(slot)].node; }

  // Returns whether the node may be out of credit.
  bool Starved(std::uint16_t node) const {
    return peers_[node].held + peers_[node].owed >= options_.each;
  }
  // Allows one more frame without credit; false: the limit is reached.
  bool Solicit();
  bool IsAtSolicitedLimit() const { return solicited_ >= kSolicitedMax; }
  void Unsolicit() { --solicited_; }
  // Call before Unsolicit. Returns -1 if nothing was solicited, or it is too long.
  std::int32_t PutSolicited(std::uint16_t node, std::span<const std::byte> payload);

 private:
  struct Slot {
    std::unique_ptr<std::byte[]> data;
    std::uint16_t node = 0;
    bool by_credit = false;
  };
  struct Peer {
    std::uint32_t credits = 0;  // Frames we may still send.
    std::uint32_t owed = 0;     // Freed, but not yet returned.
    std::uint32_t held = 0;     // Slots with frames that arrived by credit.
    bool has_slots = false;
  };
  static std::size_t Index(std::int32_t slot) { return static_cast<std::size_t>(slot); }
  void AddSlots(std::size_t count);
  std::int32_t Take(std::uint16_t node, std::span<const std::byte> payload, bool by_credit);

  CreditOptions options_;
  std::vector<Peer> peers_;  // Indexed by node.
  std::vector<Slot> slots_;
  std::vector<std::int32_t> free_;
  std::uint32_t solicited_ = 0;  // Not arrived yet.
};

}  // namespace mlxcomm::collective

// Where eager frames wait until their operation is ready for them, and the credit
// that bounds how many there can be.
//
// Each side of a pair of nodes may have kEagerCredits frames of one group on the
// way or waiting at the other side; a frame beyond that is the sender's fault. So
// a group's memory for frames that nobody has asked for yet is fixed when it
// forms, and a slow group never holds up another.
//
// Owner: Group. Thread: engine. Memory: allocated once, kEagerCredits slots for
// each other node of the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

inline constexpr std::uint32_t kEagerCredits = 16;
// Credits are returned in lots, so that not every frame is answered by another.
inline constexpr std::uint32_t kCreditLot = kEagerCredits / 4;

class EagerStash {
 public:
  EagerStash(std::uint16_t nodes, std::uint16_t self);

  // Sending side.
  bool TakeCredit(std::uint16_t node);
  // False: more than were ever out.
  [[nodiscard]] bool ReturnCredit(std::uint16_t node, std::uint64_t frames);

  // Receiving side. -1: the sender has used more than its credit.
  std::int32_t Put(std::uint16_t node, std::span<const std::byte> payload);
  const std::byte* Data(std::int32_t slot) const;
  // Returns how many credits to give back to the slot's node now (0: none yet).
  std::uint32_t Free(std::int32_t slot);
  std::uint16_t NodeOf(std::int32_t slot) const;

 private:
  std::uint16_t self_;
  std::vector<std::uint32_t> credits_;       // By node: frames we may still send.
  std::vector<std::uint32_t> owed_;          // By node: freed, not yet given back.
  std::vector<std::vector<std::uint32_t>> free_;  // By node: free slots.
  std::vector<std::byte> memory_;
};

}  // namespace mlxcomm::collective

#include "daemon/collective/eager_stash.h"

#include <cstring>
#include <utility>

#include "proto/types/planted_bug.h"

namespace mlxcomm::collective {

bool EagerStash::TakeCredit(std::uint16_t node) {
  if (peers_[node].credits == 0) return false;
  --peers_[node].credits;
  return true;
}

bool EagerStash::ReturnCredit(std::uint16_t node, std::uint64_t frames) {
  if (frames > options_.each - peers_[node].credits) return false;
  peers_[node].credits += static_cast<std::uint32_t>(frames);
  return true;
}

void EagerStash::AddSlots(std::size_t count) {
  slots_.reserve(slots_.size() + count);
  free_.reserve(slots_.size() + count);
  for (std::size_t i = 0; i < count; ++i) {
    free_.push_back(static_cast<std::int32_t>(slots_.size()));
    slots_.push_back({std::make_unique_for_overwrite<std::byte[]>(kEagerBytes), 0, false});
  }
}

std::int32_t EagerStash::Take(std::uint16_t node, std::span<const std::byte> payload,
                              bool by_credit) {
  if (free_.empty()) AddSlots(1);
  const std::int32_t slot = free_.back();
  free_.pop_back();
  Slot& taken = slots_[Index(slot)];
  taken.node = node;
  taken.by_credit = by_credit;
  if (!payload.empty()) std::memcpy(taken.data.get(), payload.data(), payload.size());
  return slot;
}

std::int32_t EagerStash::Put(std::uint16_t node, std::span<const std::byte> payload) {
  Peer& peer = peers_[node];
  if (peer.held + peer.owed >= options_.each || payload.size() > kEagerBytes) return -1;
  // Allocates now, because later frames arrive while payload moves.
  if (!std::exchange(peer.has_slots, true)) AddSlots(options_.each);
  ++peer.held;
  return Take(node, payload, /*by_credit=*/true);
}

std::uint32_t EagerStash::Free(std::int32_t slot) {
  free_.push_back(slot);
  const Slot& freed = slots_[Index(slot)];
  if (!freed.by_credit) return 0;
  Peer& peer = peers_[freed.node];
  --peer.held;
  if (++peer.owed < options_.lot()) return 0;
  if (MLXCOMM_PLANTED_BUG(kForgetCredit)) peer.owed = 0;
  return std::exchange(peer.owed, 0);
}

bool EagerStash::Solicit() {
  if (solicited_ >= kSolicitedMax) return false;
  ++solicited_;
  return true;
}

std::int32_t EagerStash::PutSolicited(std::uint16_t node, std::span<const std::byte> payload) {
  if (solicited_ == 0 || payload.size() > kEagerBytes) return -1;
  return Take(node, payload, /*by_credit=*/false);
}

}  // namespace mlxcomm::collective

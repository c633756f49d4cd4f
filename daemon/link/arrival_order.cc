#include "daemon/link/arrival_order.h"

#include <cstring>
#include <utility>

namespace mlxcomm::link {

ArrivalOrder::Arrival ArrivalOrder::OnArrived(std::uint64_t sequence) {
  if (sequence > received_ + wire::kWindow) return Arrival::kViolation;
  if (sequence <= received_ || BitOf(sequence)) return Arrival::kDuplicate;
  if (sequence != received_ + 1) {
    FlipBit(sequence);
    ++beyond_;
    return Arrival::kEarly;
  }
  claims_.OnReceived(++received_);
  while (beyond_ > 0 && BitOf(received_ + 1)) {
    FlipBit(received_ + 1);
    --beyond_;
    claims_.OnReceived(++received_);
  }
  return Arrival::kNext;
}

bool ArrivalOrder::HasArrived(std::uint64_t sequence) const {
  if (sequence <= received_) return true;
  return sequence <= received_ + wire::kWindow && BitOf(sequence);
}

bool ArrivalOrder::Describe(std::uint32_t block, wire::Arrived& arrived) const {
  arrived = {};
  arrived.block = block;
  if (beyond_ == 0) return false;
  std::uint64_t any = 0;
  const std::uint64_t first = received_ + 1 + wire::Arrived::kBits * block;
  for (std::size_t i = 0; i < arrived.bits.size(); ++i) {
    const std::uint64_t at = (first + 64 * i) % wire::kWindow;
    const std::uint64_t shift = at % 64;
    arrived.bits[i] = bits_[at / 64] >> shift;
    if (shift > 0) arrived.bits[i] |= bits_[(at / 64 + 1) % bits_.size()] << (64 - shift);
    any |= arrived.bits[i];
  }
  return any != 0;
}

ArrivalOrder::Keeping ArrivalOrder::Keep(const wire::FrameHeader& header,
                                         std::span<const std::byte> payload,
                                         std::unique_ptr<std::vector<std::byte>> control) {
  if (kept_bytes_ + payload.size() > wire::kEarlyBytesMax) return Keeping::kBeyondWindow;
  if (kept_.empty()) kept_.resize(wire::kWindow);
  Kept& kept = kept_[header.sequence % wire::kWindow];
  if (control == nullptr && !payload.empty() && TakeSlot(kept, payload.size())) {
    std::memcpy(slots_[static_cast<std::size_t>(kept.slot)].get(), payload.data(), payload.size());
  } else {
    if (!Hold(payload.size())) return Keeping::kNoRoom;
    kept.control = std::move(control);
    if (kept.control == nullptr && !payload.empty())
      kept.control = std::make_unique<std::vector<std::byte>>(payload.begin(), payload.end());
  }
  kept.header = header;
  kept.used = true;
  kept_bytes_ += payload.size();
  return Keeping::kKept;
}

bool ArrivalOrder::Hold(std::uint64_t bytes) {
  if (budget_ != nullptr && !budget_->Take(held_bytes_, bytes)) return false;
  held_bytes_ += bytes;
  return true;
}

void ArrivalOrder::Release(std::uint64_t bytes) {
  if (budget_ != nullptr) budget_->GiveBack(held_bytes_, bytes);
  held_bytes_ -= bytes;
}

// Slots are never freed, so they count against the link's own share; frames beyond it take their
// exact size.
bool ArrivalOrder::TakeSlot(Kept& kept, std::size_t bytes) {
  if (bytes > wire::kSlotBytesMax) return false;
  if (free_slots_.empty()) {
    const bool has_room = held_bytes_ + wire::kSlotBytesMax <= EarlyBudget::kOwnBytes;
    if (!has_room || !Hold(wire::kSlotBytesMax)) return false;
    free_slots_.push_back(static_cast<std::int32_t>(slots_.size()));
    slots_.push_back(std::make_unique_for_overwrite<std::byte[]>(wire::kSlotBytesMax));
  }
  kept.slot = free_slots_.back();
  free_slots_.pop_back();
  return true;
}

const wire::FrameHeader* ArrivalOrder::NextDue(std::span<const std::byte>& payload) {
  if (due_ != nullptr) Free(*std::exchange(due_, nullptr));
  if (kept_.empty()) {
    reported_ = received_;
    return nullptr;
  }
  while (reported_ < received_) {
    Kept& kept = kept_[++reported_ % wire::kWindow];
    if (!kept.used) continue;  // Delivered on arrival.
    due_ = &kept;
    const std::byte* bytes = nullptr;
    if (kept.control != nullptr) bytes = kept.control->data();
    if (kept.slot >= 0) bytes = slots_[static_cast<std::size_t>(kept.slot)].get();
    payload = {bytes, bytes == nullptr ? 0 : kept.header.payload_bytes};
    return &kept.header;
  }
  return nullptr;
}

void ArrivalOrder::Free(Kept& kept) {
  kept_bytes_ -= kept.header.payload_bytes;
  if (kept.slot >= 0) {
    free_slots_.push_back(std::exchange(kept.slot, -1));
  } else {
    Release(kept.header.payload_bytes);
  }
  kept.control.reset();
  kept.used = false;
}

void ArrivalOrder::Reset() {
  due_ = nullptr;
  kept_ = std::vector<Kept>();
  kept_bytes_ = 0;
  slots_ = std::vector<std::unique_ptr<std::byte[]>>();
  free_slots_ = std::vector<std::int32_t>();
  Release(held_bytes_);
  received_ = 0;
  reported_ = 0;
  beyond_ = 0;
  bits_ = {};
  claims_.Reset();
}

}  // namespace mlxcomm::link

#include "daemon/fabric/channel.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::fabric {

std::int32_t Channel::TakeSlot() {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::int32_t>(slots_.size()));
    slots_.push_back(std::make_unique<std::byte[]>(wire::kSlotBytesMax));
  }
  const std::int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

absl::Status Channel::Send(const wire::FrameHeader& header, const std::byte* payload,
                           std::uint64_t cookie) {
  if (frames_.size() >= kFramesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the limit of ", kFramesMax, " frames wait for the peer already"));
  }
  const bool copied = header.type != wire::FrameType::kData && header.payload_bytes > 0;
  if (copied && copied_bytes_ + header.payload_bytes > kCopiedBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(copied_bytes_, " bytes wait for the peer already, of at most ",
                     kCopiedBytesMax));
  }
  Outgoing& frame = frames_.emplace_back();
  frame.header = header;
  frame.header.magic = wire::kFrameMagic;
  frame.header.sequence = next_sequence_++;
  frame.cookie = cookie;
  frame.payload = payload;
  if (!copied) return absl::OkStatus();
  copied_bytes_ += header.payload_bytes;
  if (header.payload_bytes <= wire::kSlotBytesMax) {
    frame.slot = TakeSlot();
    std::byte* const copy = slots_[static_cast<std::size_t>(frame.slot)].get();
    std::memcpy(copy, payload, header.payload_bytes);
    frame.payload = copy;
  } else {
    frame.own = std::make_unique<std::vector<std::byte>>(payload, payload + header.payload_bytes);
    frame.payload = frame.own->data();
  }
  return absl::OkStatus();
}

bool Channel::NextToHand(Frame& frame) {
  if (handed_ == frames_.size() || handed_ - written_ >= kHandedFramesMax ||
      handed_bytes_ >= kHandedBytesMax) {
    return false;
  }
  const Outgoing& next = frames_[handed_++];
  handed_bytes_ += next.header.payload_bytes;
  frame.header = next.header;
  frame.header.acknowledged = received();
  frame.payload = next.payload;
  return true;
}

void Channel::OnTransmitted(std::size_t frames) {
  for (; frames > 0 && written_ < handed_; --frames) {
    Outgoing& frame = frames_[written_++];
    handed_bytes_ -= frame.header.payload_bytes;
    if (frame.release_when_written) ReplaceByCancelled(frame);
  }
}

void Channel::Release(Outgoing& frame) {
  if (IsCopied(frame)) copied_bytes_ -= frame.header.payload_bytes;
  if (frame.slot >= 0) free_slots_.push_back(std::exchange(frame.slot, -1));
  if (frame.header.type == wire::FrameType::kData) released_.push_back(frame.cookie);
}

// The number stays, the payload is let go.
void Channel::ReplaceByCancelled(Outgoing& frame) {
  Release(frame);
  frame.header.type = wire::FrameType::kCancelled;
  frame.header.payload_bytes = 0;
  frame.header.offset = 0;
  frame.payload = nullptr;
  frame.release_when_written = false;
}

bool Channel::OnAcknowledged(std::uint64_t sequence) {
  if (sequence >= next_sequence_) return false;
  while (!frames_.empty() && frames_.front().header.sequence <= sequence) {
    // A rail tells that it has written a frame before it can hear of it again.
    if (written_ == 0) return false;
    --written_;
    --handed_;
    Release(frames_.front());
    frames_.pop_front();
  }
  return true;
}

Channel::Arrival Channel::OnReceived(std::uint64_t sequence) {
  if (sequence == next_expected_) {
    ++next_expected_;
    return Arrival::kNext;
  }
  if (sequence > next_expected_) return Arrival::kViolation;
  ++duplicates_;
  return Arrival::kDuplicate;
}

void Channel::Cancel(const OperationKey& key) {
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    Outgoing& frame = frames_[i];
    if (frame.header.type != wire::FrameType::kData || KeyOf(frame.header) != key) continue;
    if (i >= written_ && i < handed_) {
      frame.release_when_written = true;  // A rail may be reading it this moment.
    } else {
      ReplaceByCancelled(frame);
    }
  }
}

void Channel::OnRailDown() {
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    if (frames_[i].release_when_written) ReplaceByCancelled(frames_[i]);
  }
  handed_ = 0;
  written_ = 0;
  handed_bytes_ = 0;
}

bool Channel::Resume(std::uint64_t peer_next_expected) {
  if (peer_next_expected == 0 || peer_next_expected > next_sequence_) return false;
  // What the peer has, it has: as if it had been handed, written and acknowledged.
  while (!frames_.empty() && frames_.front().header.sequence < peer_next_expected) {
    Release(frames_.front());
    frames_.pop_front();
  }
  return frames_.empty() ? peer_next_expected == next_sequence_
                         : frames_.front().header.sequence == peer_next_expected;
}

void Channel::Reset() {
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    if (frames_[i].slot >= 0) free_slots_.push_back(frames_[i].slot);
  }
  frames_.clear();
  handed_ = 0;
  written_ = 0;
  handed_bytes_ = 0;
  copied_bytes_ = 0;
  next_sequence_ = 1;
  next_expected_ = 1;
  released_.clear();
}

}  // namespace mlxcomm::fabric

#include "daemon/link/channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::link {
namespace {

// Assumed until a rail has been measured: 10 GbE.
constexpr double kRateAssumed = 1.25e9;
// The choice of a rail is reviewed after this long at the earliest.
constexpr std::uint64_t kJudgeAgainNs = 100'000;

std::uint64_t WireBytes(const wire::FrameHeader& header) {
  return sizeof header + header.payload_bytes;
}

}  // namespace

// Takes the smallest sufficient slot: most messages are small, and a slow peer may leave many
// waiting.
std::byte* Channel::TakeSlot(Outgoing& frame) {
  while (kSlotBytes[frame.size] < frame.header.payload_bytes) ++frame.size;
  Slots& slots = slots_[frame.size];
  if (slots.free.empty()) {
    slots.free.push_back(static_cast<std::int32_t>(slots.all.size()));
    slots.all.push_back(std::make_unique_for_overwrite<std::byte[]>(kSlotBytes[frame.size]));
  }
  frame.slot = slots.free.back();
  slots.free.pop_back();
  return slots.all[static_cast<std::size_t>(frame.slot)].get();
}

std::uint64_t Channel::slot_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) bytes += slots_[i].all.size() * kSlotBytes[i];
  return bytes;
}

absl::Status Channel::HasRoomFor(const wire::FrameHeader& header) const {
  if (frames_.size() >= limits_.frames_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many frames wait for the peer (limit ", limits_.frames_max, ")"));
  }
  const bool copied = header.type != wire::FrameType::kData && header.payload_bytes > 0;
  if (copied && copied_bytes_ + header.payload_bytes > limits_.copied_bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        copied_bytes_, " bytes already wait for the peer (limit ", limits_.copied_bytes_max, ")"));
  }
  if (!wire::IsRouting(header.type) || header.type == wire::FrameType::kCircuitClosed) {
    return absl::OkStatus();
  }
  if (carried_frames_ >= limits_.frames_max / 4 * 3 ||
      carried_bytes_ + header.payload_bytes > limits_.copied_bytes_max / 4 * 3) {
    return absl::ResourceExhaustedError(
        absl::StrCat(carried_frames_, " frames of ", carried_bytes_,
                     " bytes for third nodes already wait for the peer"));
  }
  return absl::OkStatus();
}

absl::Status Channel::Send(const wire::FrameHeader& header, const std::byte* payload,
                           std::uint64_t cookie) {
  if (absl::Status status = HasRoomFor(header); !status.ok()) return status;
  const bool copied = header.type != wire::FrameType::kData && header.payload_bytes > 0;
  if (wire::IsRouting(header.type)) {
    ++carried_frames_;
    carried_bytes_ += header.payload_bytes;
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
    std::byte* const copy = TakeSlot(frame);
    std::memcpy(copy, payload, header.payload_bytes);
    frame.payload = copy;
  } else {
    frame.own = std::make_unique<std::vector<std::byte>>(payload, payload + header.payload_bytes);
    frame.payload = frame.own->data();
  }
  return absl::OkStatus();
}

Channel::Outgoing* Channel::Find(std::uint64_t sequence) {
  if (frames_.empty()) return nullptr;
  const std::uint64_t first = frames_.front().header.sequence;
  if (sequence < first || sequence - first >= frames_.size()) return nullptr;
  return &frames_[static_cast<std::size_t>(sequence - first)];
}

// Lost frames go first, because the peer waits for them.
Channel::Outgoing* Channel::NextOutgoing() {
  for (; !lost_.empty(); lost_.pop_front()) {
    Outgoing* const frame = Find(lost_.front());
    if (frame != nullptr && frame->state == State::kLost && !frame->acknowledged) return frame;
  }
  if (next_new_ == next_sequence_ || next_new_ > acknowledged_ + wire::kWindow) return nullptr;
  Outgoing* const frame = Find(next_new_);
  if (EarlyBytes(*frame) > 0 && early_bytes_ + EarlyBytes(*frame) > wire::kEarlyBytesMax &&
      next_new_ != acknowledged_ + 1) {
    return nullptr;
  }
  return frame;
}

bool Channel::ChooseRail(const Outgoing& frame, bool reliable_only, std::size_t& rail) {
  double rate_unmeasured = 0;
  bool any_reliable = false;
  const bool alone = open_.size() == 1;
  for (const std::size_t at : open_) {
    const RailFlight& flight = flights_[at];
    any_reliable = any_reliable || flight.is_reliable();
    rate_unmeasured = std::max(rate_unmeasured, flight.meter().bytes_per_second());
  }
  if (rate_unmeasured == 0) rate_unmeasured = kRateAssumed;
  const std::uint64_t bytes = WireBytes(frame.header);
  std::uint64_t soonest = kNever;
  std::uint64_t soonest_with_room = kNever;
  for (const std::size_t i : open_) {
    RailFlight& flight = flights_[i];
    if (reliable_only && any_reliable && !flight.is_reliable()) continue;
    const std::uint64_t arrival = flight.ArrivalNs(bytes, rate_unmeasured, now_ns_);
    if (!flight.IsFull(alone)) soonest_with_room = std::min(soonest_with_room, arrival);
    if (arrival >= soonest) continue;
    soonest = arrival;
    rail = i;
  }
  if (soonest == kNever) return false;
  if (soonest_with_room == soonest && !flights_[rail].IsFull(alone)) return true;
  // Wait for the best rail, until its oldest frame has waited longer than the alternative takes.
  if (soonest_with_room != kNever) {
    RailFlight& best = flights_[rail];
    const std::uint64_t patience_ns = std::max(soonest_with_room, best.LateNs() + 1);
    waits_until_ns_ = std::max(now_ns_ + kJudgeAgainNs, best.OldestSinceNs(now_ns_) + patience_ns);
  }
  return false;
}

bool Channel::NextToSend(rail::OutgoingFrame& frame, std::size_t& rail, bool reliable_control) {
  waits_until_ns_ = kNever;
  Outgoing* const next = NextOutgoing();
  if (next == nullptr) return false;
  const bool reliable_only = reliable_control && next->header.type == wire::FrameType::kControl;
  if (!ChooseRail(*next, reliable_only, rail)) return false;
  if (next->state == State::kLost) {
    lost_.pop_front();
    ++resent_;
  } else {
    ++next_new_;
    early_bytes_ += EarlyBytes(*next);
  }
  next->state = State::kUnderWay;
  next->rail = static_cast<std::uint8_t>(rail);
  next->ordinal = flights_[rail].OnSent(next->header.sequence, WireBytes(next->header));
  ++next->readers;
  frame = static_cast<const rail::OutgoingFrame&>(*next);
  if (next->wanted && frame.header.type == wire::FrameType::kData) {
    frame.header.flags |= wire::kRepeated;
  }
  return true;
}

void Channel::OnTransmitted(std::size_t rail, std::size_t frames) {
  RailFlight& flight = flights_[rail];
  if (frames == 0) return;
  for (; frames > 0 && flight.has_unwritten(); --frames) OnReaderDone(flight.OnWritten());
  PopDone();
}

void Channel::OnReaderDone(std::uint64_t sequence) {
  Outgoing* const frame = Find(sequence);
  if (frame == nullptr || --frame->readers > 0) return;
  if (frame->acknowledged) {
    Release(*frame);
  } else if (frame->cancelled) {
    ReplaceByCancelled(*frame);
  }
}

void Channel::Release(Outgoing& frame) {
  if (std::exchange(frame.released, true)) return;
  if (frame.slot >= 0 || frame.own != nullptr) copied_bytes_ -= frame.header.payload_bytes;
  if (frame.slot >= 0) slots_[frame.size].free.push_back(std::exchange(frame.slot, -1));
  frame.own.reset();
  if (frame.header.type == wire::FrameType::kData) released_.push_back(frame.cookie);
}

void Channel::ReplaceByCancelled(Outgoing& frame) {
  Release(frame);
  frame.header.type = wire::FrameType::kCancelled;
  frame.header.payload_bytes = 0;
  frame.header.offset = 0;
  frame.payload = nullptr;
}

bool Channel::AcknowledgeOne(std::uint64_t sequence) {
  if (sequence >= next_new_) return false;
  Outgoing* const frame = Find(sequence);
  if (frame == nullptr || frame->acknowledged) return true;
  frame->acknowledged = true;
  if (frame->state == State::kUnderWay) {
    flights_[frame->rail].OnAcknowledged(frame->ordinal, now_ns_);
  }
  if (frame->readers == 0) Release(*frame);
  return true;
}

bool Channel::OnAcknowledged(std::uint64_t sequence) {
  if (sequence >= next_new_) return false;
  while (acknowledged_ < sequence) {
    AcknowledgeOne(++acknowledged_);
    if (const Outgoing* const frame = Find(acknowledged_); frame != nullptr) {
      early_bytes_ -= EarlyBytes(*frame);
    }
  }
  PopDone();
  return true;
}

void Channel::PopDone() {
  while (!frames_.empty()) {
    const Outgoing& frame = frames_.front();
    if (frame.header.sequence > acknowledged_ || frame.readers > 0) return;
    if (wire::IsRouting(frame.header.type)) {
      --carried_frames_;
      carried_bytes_ -= frame.header.payload_bytes;
    }
    frames_.pop_front();
  }
}

void Channel::GiveUpOn(std::size_t rail, std::uint64_t ordinal) {
  Outgoing* const frame = Find(flights_[rail].At(ordinal).sequence);
  flights_[rail].OnGivenUp(ordinal);
  if (frame == nullptr || frame->acknowledged || frame->state != State::kUnderWay) return;
  if (frame->rail != rail || frame->ordinal != ordinal) return;
  frame->state = State::kLost;
  lost_.emplace_back() = frame->header.sequence;
}

void Channel::OnWanted(std::uint64_t sequence) {
  Outgoing* const frame = Find(sequence);
  if (frame == nullptr || frame->acknowledged || frame->state != State::kUnderWay) return;
  frame->wanted = true;
  GiveUpOn(frame->rail, frame->ordinal);
}

// Rails keep order: a frame sent before one that has arrived has either arrived as well or is lost.
void Channel::FindLost() {
  for (const std::size_t rail : open_) {
    RailFlight& flight = flights_[rail];
    if (flight.is_reliable()) continue;
    while (flight.Oldest() < flight.acknowledged_end()) GiveUpOn(rail, flight.Oldest());
  }
}

void Channel::OnRailDown(std::size_t rail) {
  RailFlight& flight = flights_[rail];
  while (flight.has_unwritten()) OnReaderDone(flight.OnWritten());
  while (flight.Oldest() < flight.end()) GiveUpOn(rail, flight.Oldest());
  flight.Close();
  open_.Remove(rail);
  PopDone();
  waits_until_ns_ = kNever;  // NextToSend chooses another rail, if there is one.
}

void Channel::OnNow(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  probe_ns_ = kNever;
  for (const std::size_t rail : open_) {
    RailFlight& flight = flights_[rail];
    flight.OnNow(now_ns);
    if (flight.is_reliable()) continue;
    // Gives up all that are late: acknowledgements of resent frames say nothing about the others.
    while (flight.ProbeNs() <= now_ns) {
      flight.OnProbed();
      GiveUpOn(rail, flight.Oldest());
    }
    probe_ns_ = std::min(probe_ns_, flight.ProbeNs());
  }
}

std::uint64_t Channel::deadline_ns() const {
  std::uint64_t deadline = std::min(probe_ns_, waits_until_ns_);
  if (frames_.empty()) return deadline;  // Nothing can be lost.
  for (const std::size_t rail : open_) {
    const RailFlight& flight = flights_[rail];
    if (!flight.is_reliable() && flight.has_untimed()) {
      deadline = std::min(deadline, now_ns_ + kJudgeAgainNs);
    }
  }
  return deadline;
}

void Channel::Cancel(const OperationKey& key) {
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    Outgoing& frame = frames_[i];
    if (frame.header.type != wire::FrameType::kData || KeyOf(frame.header) != key) continue;
    if (frame.readers > 0) {
      frame.cancelled = true;  // A rail may be reading it.
    } else if (!frame.acknowledged) {
      ReplaceByCancelled(frame);
    }
  }
}

}  // namespace mlxcomm::link

#include "daemon/rdma/message_stream.h"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/rail/frame_sum.h"
#include "proto/wire/frame.h"

namespace mlxcomm::rdma {

MessageStream::MessageStream(const Shape& shape, std::uint64_t now_ns)
    : shape_(shape),
      now_ns_(now_ns),
      limit_(shape.peer_receives),
      last_sent_ns_(now_ns),
      posted_(shape.messages),
      reported_(shape.messages) {
  for (std::uint32_t i = shape.messages; i > 0; --i) free_.push_back(shape.messages + i - 1);
}

std::uint32_t MessageStream::TakeFreeSlot() {
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

// Opens a slot for frames. Keeps a slot and some numbers for messages without frames.
bool MessageStream::OpenSlot() {
  if (open_ != kNone) return true;
  wants_credit_ = !HasCredit(reserve());
  if (wants_credit_ || free_.size() < 2) return false;
  open_ = TakeFreeSlot();
  open_bytes_ = 0;
  open_first_frame_ = kNoFrame;
  return true;
}

void MessageStream::CloseSlot(std::uint32_t raw) {
  Closed& closed = closed_.emplace_back();
  closed.slot = std::exchange(open_, kNone);
  closed.bytes = open_bytes_;
  closed.first_frame = open_first_frame_;
  closed.raw = raw;
  is_unconfirmed_ = false;
  ++next_number_;
}

// Copies as much of a part as the open slot holds.
std::uint32_t MessageStream::TakePart(const std::byte* from, std::size_t bytes) {
  const std::uint32_t room = body_bytes() - open_bytes_;
  if (frame_left_ == 0) {
    wire::FrameHeader header;
    if (room < sizeof header) return 0;
    std::memcpy(&header, from, sizeof header);
    frame_left_ = sizeof header + header.payload_bytes;
    frame_may_be_raw_ = shape_.regions != nullptr && RawMax() + 1 >= kRawMessagesMin &&
                        header.payload_bytes / shape_.slot_bytes >= kRawMessagesMin;
    if (open_first_frame_ == kNoFrame) open_first_frame_ = open_bytes_;
  }
  const auto taken =
      static_cast<std::uint32_t>(std::min<std::uint64_t>({bytes, room, frame_left_}));
  std::memcpy(SlotAt(open_) + sizeof(MessageHeader) + open_bytes_, from, taken);
  open_bytes_ += taken;
  frame_left_ -= taken;
  written_ += taken;
  copied_bytes_.store(copied_bytes() + taken, std::memory_order_relaxed);
  return taken;
}

// Sends whole messages from the region; the open slot announces them. Returns 0 if too few can be
// sent now.
std::size_t MessageStream::TakeRaw(const std::byte* from, std::uint64_t messages,
                                   SendRegions::Known& known) {
  const std::uint64_t wanted = std::min<std::uint64_t>(messages, RawMax());
  // A waiting sender has sent so much that the other side will report half of its receives.
  const std::uint64_t least = std::min<std::uint64_t>(
      wanted, std::max(std::min(RawMax() / 2, shape_.peer_receives / 2 - reserve()), 1u));
  // The open slot uses the next number; the next header may use one of the reserve.
  const std::uint64_t numbers = limit_ - next_number_ - reserve();
  const std::uint64_t room = std::min<std::uint64_t>(numbers, free_.size() - 1);
  if (room < least) {
    wants_credit_ = numbers < least;
    if (open_bytes_ == 0) free_.push_back(std::exchange(open_, kNone));
    return 0;
  }
  const auto count = static_cast<std::uint32_t>(std::min(wanted, room));
  CloseSlot(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Closed& raw = closed_.emplace_back();
    raw.slot = TakeFreeSlot();
    raw.from = from + std::size_t{i} * shape_.slot_bytes;
    raw.known = &known;
    SendRegions::Take(known);
    raw_.emplace_back() = {raw.slot, written_, &known};
    written_ += shape_.slot_bytes;
  }
  is_unconfirmed_ = true;
  next_number_ += count;
  const std::size_t taken = std::size_t{count} * shape_.slot_bytes;
  frame_left_ -= taken;
  direct_bytes_.store(direct_bytes() + taken, std::memory_order_relaxed);
  return taken;
}

// Returns 0 if no more can be taken now.
std::size_t MessageStream::TakeSome(const std::byte* from, std::size_t bytes) {
  const std::uint64_t whole = std::min<std::uint64_t>(bytes, frame_left_) / shape_.slot_bytes;
  SendRegions::Found found;
  if (frame_may_be_raw_ && whole > 0) found = shape_.regions->Find(from);
  if (!OpenSlot()) return 0;
  const std::uint64_t messages = std::min(whole, found.bytes / shape_.slot_bytes);
  if (messages > 0) return TakeRaw(from, messages, *found.known);
  std::size_t taken = TakePart(from, bytes);
  if (taken > 0 && open_bytes_ < body_bytes()) return taken;
  CloseSlot();
  // Headers are not split: the next one begins the next slot.
  return taken > 0 ? taken : TakeSome(from, bytes);
}

ssize_t MessageStream::Write(int /*socket*/, iovec* parts, int count) {
  std::size_t written = 0;
  for (int i = 0; i < count; ++i) {
    const auto* from = static_cast<const std::byte*>(parts[i].iov_base);
    std::size_t left = parts[i].iov_len;
    while (left > 0) {
      const std::size_t taken = TakeSome(from, left);
      if (taken == 0) break;
      from += taken;
      left -= taken;
      written += taken;
    }
    if (left > 0) break;
  }
  // The other side waits for it.
  if (open_ != kNone) CloseSlot();
  if (written > 0) return static_cast<ssize_t>(written);
  errno = EAGAIN;
  return -1;
}

ssize_t MessageStream::Read(int /*socket*/, iovec* parts, int count) {
  std::size_t got = 0;
  std::size_t filled = 0;
  for (int i = 0; i < count && !arrived_.empty() && !arrived_.front().gap;) {
    Arrived& front = arrived_.front();
    const std::size_t bytes =
        std::min<std::size_t>(parts[i].iov_len - filled, front.end - front.at);
    std::memcpy(static_cast<std::byte*>(parts[i].iov_base) + filled, SlotAt(front.slot) + front.at,
                bytes);
    front.at += static_cast<std::uint32_t>(bytes);
    filled += bytes;
    got += bytes;
    if (front.at == front.end) PopArrived();
    if (filled == parts[i].iov_len) {
      ++i;
      filled = 0;
    }
  }
  if (got > 0) return static_cast<ssize_t>(got);
  errno = EAGAIN;
  return -1;
}

void MessageStream::PopArrived() {
  read_.emplace_back() = arrived_.front().slot;
  arrived_.pop_front();
}

bool MessageStream::TakeGap() {
  if (arrived_.empty()) return gap_ && !std::exchange(gap_reported_, true);
  bool any = false;
  while (!arrived_.empty() && std::exchange(arrived_.front().gap, false)) {
    any = true;
    if (arrived_.front().first_frame != kNoFrame) {
      arrived_.front().at = arrived_.front().first_frame;
      break;
    }
    // The whole message belongs to the lost frame, and the next one may, too.
    PopArrived();
    (arrived_.empty() ? gap_ : arrived_.front().gap) = true;
    gap_reported_ = true;
  }
  return any;
}

bool MessageStream::NextReceive(std::uint32_t& slot) {
  if (read_.empty()) return false;
  slot = read_.front();
  read_.pop_front();
  return true;
}

bool MessageStream::NextSend(Outgoing& message) {
  if (closed_.empty()) return false;
  const Closed next = closed_.front();
  closed_.pop_front();
  const std::uint64_t number = next_posted_++;
  last_sent_ns_ = now_ns_;
  message = {next.slot, shape_.slot_bytes, next.from, next.known};
  if (next.from != nullptr) return true;
  MessageHeader header{.bytes = next.bytes,
                       .connection = shape_.connection,
                       .number = number,
                       .seen = seen_,
                       .posted = posted_,
                       .first_frame = next.first_frame,
                       .raw = next.raw,
                       .raw_bytes = next.raw > 0 ? shape_.slot_bytes : 0};
  header.sum = SumOf(header);
  std::memcpy(SlotAt(next.slot), &header, sizeof header);
  reported_ = std::max(reported_, seen_ + posted_);
  report_now_ = false;
  message.bytes = static_cast<std::uint32_t>(sizeof header) + next.bytes;
  return true;
}

void MessageStream::OnSent(std::uint32_t slot) {
  free_.push_back(slot);
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    if (raw_[i].slot != slot || raw_[i].known == nullptr) continue;
    shape_.regions->Return(*std::exchange(raw_[i].known, nullptr));
    break;
  }
  while (!raw_.empty() && raw_.front().known == nullptr) raw_.pop_front();
}

void MessageStream::Void() {
  for (std::uint32_t i = 0; i < shape_.messages; ++i) {
    std::memset(SlotAt(shape_.messages + i), 0, sizeof(MessageHeader));
  }
}

std::uint32_t MessageStream::SumOf(MessageHeader header) {
  header.sum = 0;
  return rail::ExtendSum(0, reinterpret_cast<const std::byte*>(&header), sizeof header);
}

bool MessageStream::TakeCredit(std::uint64_t seen, std::uint32_t posted) {
  if (seen >= next_posted_ || posted > shape_.peer_receives) return false;
  if (seen + posted > limit_) {
    limit_ = seen + posted;
    unanswered_ = 0;
  }
  wants_credit_ = wants_credit_ && !HasCredit(reserve());
  return true;
}

bool MessageStream::IsSound(const MessageHeader& header) const {
  const bool raw_is_sound =
      header.raw == 0 ? header.raw_bytes == 0
                      : header.raw <= shape_.messages / 2 && header.raw_bytes == shape_.slot_bytes;
  return header.number > seen_ && header.bytes <= body_bytes() && raw_is_sound &&
         (header.first_frame == kNoFrame || header.first_frame < header.bytes) &&
         // Each message since then has its own number.
         header.number - seen_ - 1 >= raw_received_;
}

// Raw messages are recognised only by the next header. Returns false if there are too many.
bool MessageStream::OnRaw(std::uint32_t slot, std::uint32_t bytes) {
  if (++raw_received_ > kRawFactorMax * shape_.messages) return false;
  raw_invalid_ = raw_invalid_ || raw_received_ > raw_announced_ || bytes != shape_.slot_bytes;
  (raw_invalid_ ? read_ : held_).emplace_back() = slot;
  return true;
}

// `missing`: messages missing before this header. Returns true if they are the announced raw ones,
// all received.
bool MessageStream::ConfirmRaw(std::uint64_t missing) {
  const bool all = missing == raw_announced_ && held_.size() == raw_announced_ && !raw_invalid_;
  for (; !held_.empty(); held_.pop_front()) {
    if (all) {
      arrived_.emplace_back() = {held_.front(), 0, shape_.slot_bytes, kNoFrame,
                                 std::exchange(gap_, false)};
    } else {
      read_.emplace_back() = held_.front();
    }
  }
  lost_messages_ += missing - raw_received_;
  raw_received_ = 0;
  raw_invalid_ = false;
  return all;
}

bool MessageStream::OnReceived(std::uint32_t slot, std::uint32_t bytes) {
  --posted_;
  MessageHeader header;
  if (bytes < sizeof header) return OnRaw(slot, bytes);
  std::memcpy(&header, SlotAt(slot), sizeof header);
  if (header.magic != kMessageMagic || header.connection != shape_.connection) {
    return OnRaw(slot, bytes);
  }
  if (header.sum != SumOf(header)) return false;
  if (!IsSound(header) || !TakeCredit(header.seen, header.posted)) return false;
  const bool is_short = header.bytes > bytes - sizeof header;
  const bool is_gap = !ConfirmRaw(header.number - seen_ - 1) || is_short;
  report_now_ = report_now_ || is_gap;
  lost_messages_ += is_short ? 1 : 0;
  if (is_gap) {
    if (shape_.loses_nothing) return false;
    gap_ = true;
    gap_reported_ = false;
  }
  seen_ = header.number;
  raw_announced_ = header.raw;
  if (header.bytes == 0 || is_short) {
    read_.emplace_back() = slot;
    return true;
  }
  constexpr auto kBody = static_cast<std::uint32_t>(sizeof header);
  const bool begins = header.first_frame != kNoFrame;
  arrived_.emplace_back() = {slot, kBody, kBody + header.bytes,
                             begins ? kBody + header.first_frame : kNoFrame,
                             std::exchange(gap_, false)};
  return true;
}

void MessageStream::OnTime() {
  if (free_.empty() || !closed_.empty()) return;  // The next message carries the credit.
  // Slots that were read are posted before anything is sent.
  const std::uint64_t takes = seen_ + posted_ + read_.size();
  const std::uint64_t unreported = takes > reported_ ? takes - reported_ : 0;
  const bool reports = 2 * unreported >= shape_.messages || report_now_ || is_unconfirmed_;
  const bool due = now_ns_ >= deadline_ns();
  if (!due && !(reports && HasCredit(reserve() / 2))) return;
  if (due && wants_credit_) unanswered_ = std::min(unanswered_ + 1, kReserveMax);
  open_ = TakeFreeSlot();
  open_bytes_ = 0;
  open_first_frame_ = kNoFrame;
  CloseSlot();
}

}  // namespace mlxcomm::rdma

#include "daemon/rail/frame_writer.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "daemon/platform/machine.h"
#include "daemon/rail/frame_sum.h"
#include "daemon/rail/posted_receives.h"

namespace mlxcomm::rail {

void FrameWriter::Queue(const OutgoingFrame& frame) {
  if (frame.header.type == wire::FrameType::kAck) return PutInFront(frame);
  if (frame.header.payload_bytes >= kLargeBytes) ++large_frames_;
  At(outgoing_count_++) = {frame};
}

void FrameWriter::Echo(const wire::FrameHeader& heartbeat) {
  echo_clock_ = heartbeat.offset;
  echo_due_ = true;
  pads_echo_ = pads_echo_ || heartbeat.payload_bytes > 0;
}

// Acknowledgements may overtake anything, but not split a frame: the peer's window waits for them.
// At most one of each kind waits, however little the peer reads, so there is always room for
// commands.
void FrameWriter::PutInFront(const OutgoingFrame& frame) {
  const bool inside = front_written_ > 0;
  for (std::size_t i = inside ? 1 : 0; i < outgoing_count_; ++i) {
    wire::FrameHeader& waiting = At(i).frame.header;
    if (waiting.sequence != 0) break;  // Unnumbered frames are in front.
    if (!wire::MayRenew(waiting, frame.header)) continue;
    wire::Renew(waiting, frame.header);
    At(i).has_sums = false;
    return;
  }
  outgoing_first_ = (outgoing_first_ + kFramesMax - 1) % kFramesMax;
  ++outgoing_count_;
  if (inside) At(0) = At(1);
  At(inside ? 1 : 0) = {frame};
}

// Puts an echo or heartbeat in front; HasRoom leaves room for it.
void FrameWriter::PutHeartbeat() {
  if (outgoing_count_ == kFramesMax) return;
  static constexpr std::array<std::byte, wire::kPaddedBytes> kPadding = {};
  wire::FrameHeader header;
  bool padded = false;
  if (echo_due_) {
    header.type = wire::FrameType::kEcho;
    header.offset = echo_clock_;
    echo_due_ = false;
    padded = std::exchange(pads_echo_, false);
  } else {
    header.type = wire::FrameType::kHeartbeat;
    header.offset = platform::MonotonicNow();
    if (asks_for_proof()) header.flags = wire::kProveAgain;
    heartbeat_due_ = false;
    padded = std::exchange(pads_heartbeat_, false);
  }
  header.digest = mark_;
  if (padded) header.payload_bytes = wire::kPaddedBytes;
  PutInFront({header, padded ? kPadding.data() : nullptr});
}

void FrameWriter::GatherBatch(iovec* parts, std::size_t* part_count) {
  std::size_t skip = front_written_;
  const auto add = [&](const void* data, std::size_t bytes) {
    if (skip >= bytes) {
      skip -= bytes;
      return;
    }
    parts[(*part_count)++] = {const_cast<char*>(static_cast<const char*>(data)) + skip,
                              bytes - skip};
    skip = 0;
  };
  std::size_t summed = 0;
  for (std::size_t i = 0; i < std::min(outgoing_count_, kBatchFrames); ++i) {
    Waiting& waiting = At(i);
    OutgoingFrame& frame = waiting.frame;
    const bool begun = i == 0 && front_written_ > 0;
    // Acknowledgements may have been inserted before it.
    if (wire::IsSignOfLife(frame.header.type) && !begun) {
      waiting.has_sums = waiting.has_sums && frame.header.number == written_frames_ + i;
      frame.header.number = written_frames_ + i;
    }
    if (has_sums_ && !waiting.has_sums && (summed >= kSummedBytes || !Sum(waiting))) return;
    summed += frame.header.payload_bytes;
    add(&frame.header, sizeof frame.header);
    if (frame.header.payload_bytes > 0) add(frame.payload, frame.header.payload_bytes);
  }
}

// Data that is sent again goes out from a copy, because a process may keep changing the original.
// Returns false while the copy is in use.
bool FrameWriter::Sum(Waiting& waiting) {
  OutgoingFrame& frame = waiting.frame;
  if (IsRepeated(frame.header)) {
    if (std::exchange(copy_waits_, true)) return false;
    copy_.assign(frame.payload, frame.payload + frame.header.payload_bytes);
    frame.payload = copy_.data();
  }
  PutSums(frame.header, frame.payload);
  waiting.has_sums = true;
  return true;
}

bool FrameWriter::SendGivenUp(LinkReason why) {
  if (!std::exchange(sent_given_up_, true)) {
    while (outgoing_count_ > (front_written_ > 0 ? 1 : 0)) {
      if (At(--outgoing_count_).frame.header.payload_bytes >= kLargeBytes) --large_frames_;
    }
    echo_due_ = heartbeat_due_ = false;
    const wire::FrameHeader header{.type = wire::FrameType::kGivenUp,
                                   .tag = static_cast<std::uint32_t>(why)};
    At(outgoing_count_++) = {{header, nullptr}};
  }
  while (Write()) {
  }
  if (error_ == 0) return !is_empty();
  // TLS writes only its own alert now.
  while (stream_.HasUnsent()) {
    if (stream_.Flush(socket_.get()) < 0) return OnNotWritten(), blocked_;
  }
  return false;
}

bool FrameWriter::Write() {
  if (error_ != 0) return false;
  CollectReleased();
  if (unreleased_count_ + kBatchFrames > kUnreleasedMax) return false;
  if (front_written_ == 0 && (echo_due_ || heartbeat_due_)) PutHeartbeat();
  blocked_ = false;
  if (outgoing_count_ == 0) {
    if (!stream_.HasUnsent()) return false;
    const ssize_t flushed = stream_.Flush(socket_.get());
    return flushed < 0 ? OnNotWritten() : flushed > 0;
  }
  iovec parts[2 * kBatchFrames];
  std::size_t part_count = 0;
  GatherBatch(parts, &part_count);
  const std::uint64_t began_ns = observer_ == nullptr ? 0 : platform::MonotonicNow();
  const ssize_t written = stream_.Write(socket_.get(), parts, static_cast<int>(part_count));
  if (written < 0) return OnNotWritten();
  sent_bytes_.fetch_add(static_cast<std::uint64_t>(written), std::memory_order_relaxed);
  OnWritten(static_cast<std::size_t>(written), began_ns);
  return written > 0;
}

bool FrameWriter::OnNotWritten() {
  blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
  const bool later = blocked_ || errno == EINTR || errno == ENOBUFS;
  if (!later) error_ = errno;
  return false;
}

void FrameWriter::OnWritten(std::size_t bytes, std::uint64_t began_ns) {
  const std::uint64_t now = observer_ == nullptr ? 0 : platform::MonotonicNow();
  if (front_written_ == 0) front_began_ns_ = began_ns;
  front_written_ += bytes;
  while (outgoing_count_ > 0) {
    const wire::FrameHeader& header = At(0).frame.header;
    const std::size_t length = sizeof header + header.payload_bytes;
    if (front_written_ < length) break;
    front_written_ -= length;
    written_ += length;
    ++written_frames_;
    if (header.sequence != 0) {
      unreleased_[(unreleased_first_ + unreleased_count_++) % kUnreleasedMax] = written_;
    }
    if (header.payload_bytes >= kLargeBytes) --large_frames_;
    if (has_sums_ && IsRepeated(header)) copy_waits_ = false;
    if (observer_ != nullptr) observer_->OnSent(header, front_began_ns_, now);
    front_began_ns_ = began_ns;
    outgoing_first_ = (outgoing_first_ + 1) % kFramesMax;
    --outgoing_count_;
  }
  CollectReleased();
}

void FrameWriter::CollectReleased() {
  const std::uint64_t released = stream_.released();
  for (; unreleased_count_ > 0 && unreleased_[unreleased_first_] <= released; --unreleased_count_) {
    unreleased_first_ = (unreleased_first_ + 1) % kUnreleasedMax;
    ++transmitted_;
  }
}

}  // namespace mlxcomm::rail

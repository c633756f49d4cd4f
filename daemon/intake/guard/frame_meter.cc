#include "daemon/intake/guard/frame_meter.h"

#include <cstring>
#include <string_view>

#include "proto/types/invariant.h"

namespace mlxcomm::guard {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::uint8_t kEndStream = 0x1;
constexpr std::uint8_t kEndHeaders = 0x4;

enum FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kResetStream = 3,
  kSettingsFrame = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};

FrameHeader Read(std::span<const std::byte, FrameHeaderReader::kHeaderBytes> bytes) {
  const auto at = [&](std::size_t place) { return static_cast<std::uint32_t>(bytes[place]); };
  return {.length = at(0) << 16 | at(1) << 8 | at(2),
          .type = static_cast<std::uint8_t>(bytes[3]),
          .flags = static_cast<std::uint8_t>(bytes[4]),
          .stream = (at(5) & 0x7f) << 24 | at(6) << 16 | at(7) << 8 | at(8)};
}

}  // namespace

bool FrameHeaderReader::Next(std::span<const std::byte>& bytes, FrameHeader& header) {
  const std::size_t skipped = std::min<std::size_t>(payload_bytes_, bytes.size());
  payload_bytes_ -= static_cast<std::uint32_t>(skipped);
  bytes = bytes.subspan(skipped);
  if (bytes.empty()) return false;
  const std::size_t some = std::min<std::size_t>(kHeaderBytes - header_bytes_, bytes.size());
  std::memcpy(header_.data() + header_bytes_, bytes.data(), some);
  header_bytes_ += static_cast<std::uint32_t>(some);
  bytes = bytes.subspan(some);
  const bool whole = header_bytes_ == kHeaderBytes;
  if (whole) {
    header_bytes_ = 0;
    header = Read(header_);
    payload_bytes_ = header.length;
  }
  CheckInvariants();
  return whole;
}

void FrameHeaderReader::CheckInvariants() const {
  MLXCOMM_INVARIANT(header_bytes_ < kHeaderBytes);
  MLXCOMM_INVARIANT(header_bytes_ == 0 || payload_bytes_ == 0);
}

FrameMeter::FrameMeter(UserMeter& user, std::uint64_t now_ns)
    : user_(user),
      pings_(kPings, now_ns),
      settings_(kSettings, now_ns),
      resets_(kResets, now_ns),
      others_(kOthers, now_ns) {
  user_.Count(UserMeter::kWorkOfConnection, 0, now_ns);
}

EndReason FrameMeter::Take(std::span<const std::byte> bytes, std::uint64_t now_ns) {
  const auto taken = static_cast<double>(bytes.size());
  work_ = 0;
  EndReason reason = TakePreface(bytes) ? EndReason::kNone : EndReason::kBroken;
  FrameHeader header;
  while (reason == EndReason::kNone && requests_.Next(bytes, header))
    reason = OnHeader(header, now_ns);
  user_.Count(work_, taken, now_ns);
  return reason;
}

void FrameMeter::TakeAnswers(std::span<const std::byte> bytes) {
  FrameHeader header;
  while (answers_.Next(bytes, header)) {
    const bool has_end = header.type == kData || header.type == kHeaders;
    const bool ends = has_end && (header.flags & kEndStream) != 0;
    if (ends || header.type == kResetStream) CloseCall(header.stream);
  }
}

bool FrameMeter::TakePreface(std::span<const std::byte>& bytes) {
  const std::string_view rest = kPreface.substr(preface_bytes_);
  const std::size_t some = std::min(rest.size(), bytes.size());
  if (std::memcmp(rest.data(), bytes.data(), some) != 0) return false;
  preface_bytes_ += static_cast<std::uint32_t>(some);
  bytes = bytes.subspan(some);
  return true;
}

EndReason FrameMeter::OnHeader(const FrameHeader& header, std::uint64_t now_ns) {
  if (header.length > kFrameBytesMax) return EndReason::kBroken;
  const auto control = [&](TokenBucket& bucket, EndReason reason) {
    work_ += header.type == kResetStream ? UserMeter::kWorkOfReset : UserMeter::kWorkOfControl;
    return bucket.Take(1, now_ns) ? EndReason::kNone : reason;
  };
  if (block_stream_ != 0 || header.type == kHeaders || header.type == kContinuation) {
    work_ += header.type == kHeaders ? UserMeter::kWorkOfCall : 1;
    return OnHeaderBlock(header);
  }
  switch (header.type) {
    case kData:
    case kWindowUpdate: work_ += 1; return EndReason::kNone;
    case kPing: return control(pings_, EndReason::kPings);
    case kSettingsFrame: return control(settings_, EndReason::kSettings);
    case kResetStream: CloseCall(header.stream); return control(resets_, EndReason::kResets);
    default: return control(others_, EndReason::kOtherFrames);
  }
}

EndReason FrameMeter::OnHeaderBlock(const FrameHeader& header) {
  if (block_stream_ == 0) {
    if (header.type != kHeaders || header.stream == 0) return EndReason::kBroken;
    block_stream_ = header.stream;
    block_bytes_ = 0;
    continuations_ = 0;
  } else {
    if (header.type != kContinuation || header.stream != block_stream_) return EndReason::kBroken;
    if (++continuations_ > kContinuationsMax) return EndReason::kLongHeaders;
  }
  block_bytes_ += header.length;
  if (block_bytes_ > kHeaderBlockBytesMax) return EndReason::kLongHeaders;
  if ((header.flags & kEndHeaders) != 0) block_stream_ = 0;
  return header.type == kHeaders ? OpenCall(header.stream) : EndReason::kNone;
}

// Headers of an open call are its trailers.
EndReason FrameMeter::OpenCall(std::uint32_t stream) {
  const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(open_calls_);
  if (std::find(calls_.begin(), end, stream) != end) return EndReason::kNone;
  if (open_calls_ == kOpenCallsMax) return EndReason::kCalls;
  calls_[open_calls_++] = stream;
  ++calls_made_;
  return EndReason::kNone;
}

void FrameMeter::CloseCall(std::uint32_t stream) {
  const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(open_calls_);
  const auto found = std::find(calls_.begin(), end, stream);
  if (found == end) return;
  *found = calls_[--open_calls_];
}

}  // namespace mlxcomm::guard

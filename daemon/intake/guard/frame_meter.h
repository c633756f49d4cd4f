// Checks that a process sends on its control connection what a client library or a tool would send.
// README.md lists the limits, and what gRPC would hold without them.
//
//   preface ─▶ nine bytes: length, type, flags, stream ─▶ payload, skipped ─▶ the next frame
//                                  │
//         counted against the connection (too many: it ends) and the user (too many: it waits)
//
// Reads only the headers of frames (RFC 9113, 4.1), and in answers which call a frame ends.
//
// Does no I/O. Owner: ConnectionRelay. Thread: its owner's. Memory: itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/intake/guard/end_reason.h"
#include "daemon/platform/token_bucket.h"

namespace mlxcomm::guard {

using platform::Rate;
using platform::TokenBucket;

// Measures all connections of a user together, including those that follow each other.
class UserMeter {
 public:
  // A frame is one unit of work; frames that cost gRPC more are several.
  static constexpr Rate kWork = {120'000, 60'000};
  static constexpr Rate kBytes = {16.0 * 1024 * 1024, 8.0 * 1024 * 1024};
  static constexpr double kWorkOfConnection = 8;
  static constexpr double kWorkOfCall = 8;
  static constexpr double kWorkOfControl = 16;  // PING, SETTINGS and the like.
  static constexpr double kWorkOfReset = 64;    // gRPC continues with the call for a while.

  explicit UserMeter(std::uint64_t now_ns) : work_(kWork, now_ns), bytes_(kBytes, now_ns) {}

  void Count(double work, double bytes, std::uint64_t now_ns) {
    (void)work_.Take(work, now_ns);
    (void)bytes_.Take(bytes, now_ns);
  }
  // Returns how long the counted bytes have to wait.
  std::uint64_t WaitNs(std::uint64_t now_ns) {
    return std::max(work_.WaitNs(now_ns), bytes_.WaitNs(now_ns));
  }
  // True if it equals a new meter.
  bool IsRested(std::uint64_t now_ns) const {
    return work_.IsFull(now_ns) && bytes_.IsFull(now_ns);
  }

 private:
  TokenBucket work_;
  TokenBucket bytes_;
};

struct FrameHeader {
  std::uint32_t length = 0;
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
};

// Finds the headers in the bytes of one direction.
class FrameHeaderReader {
 public:
  static constexpr std::uint32_t kHeaderBytes = 9;

  // True: a header is complete; the next calls skip its payload. False if no bytes are left.
  bool Next(std::span<const std::byte>& bytes, FrameHeader& header);

 private:
  void CheckInvariants() const;  // Inside a header or inside a payload, not both.

  std::array<std::byte, kHeaderBytes> header_{};
  std::uint32_t header_bytes_ = 0;   // Received.
  std::uint32_t payload_bytes_ = 0;  // Still to skip.
};

class FrameMeter {
 public:
  // gRPC's clients keep to the 16 that the server allows, once they have received its SETTINGS.
  static constexpr std::size_t kOpenCallsMax = 64;
  // A request has 64 KiB at most.
  static constexpr std::uint32_t kFrameBytesMax = 128 * 1024;
  // Limits a HEADERS with its CONTINUATIONs; our clients send some hundred bytes.
  static constexpr std::uint32_t kHeaderBlockBytesMax = 8 * 1024;
  static constexpr std::uint32_t kContinuationsMax = 8;
  static constexpr Rate kPings = {64, 20};
  static constexpr Rate kSettings = {64, 10};
  static constexpr Rate kResets = {64, 20};
  static constexpr Rate kOthers = {64, 10};  // PRIORITY, PUSH_PROMISE, GOAWAY, unknown types.

  // `user` outlives it.
  FrameMeter(UserMeter& user, std::uint64_t now_ns);

  // Takes the connection's next bytes, however cut. kNone: pass them on after user.WaitNs().
  // Otherwise end the connection.
  EndReason Take(std::span<const std::byte> bytes, std::uint64_t now_ns);

  std::uint64_t calls_made() const { return calls_made_; }
  std::size_t open_calls() const { return open_calls_; }

  void TakeAnswers(std::span<const std::byte> bytes);

 private:
  bool TakePreface(std::span<const std::byte>& bytes);
  EndReason OnHeader(const FrameHeader& header, std::uint64_t now_ns);
  EndReason OnHeaderBlock(const FrameHeader& header);
  EndReason OpenCall(std::uint32_t stream);
  void CloseCall(std::uint32_t stream);

  UserMeter& user_;
  std::uint32_t preface_bytes_ = 0;  // Received.
  FrameHeaderReader requests_;
  FrameHeaderReader answers_;
  // The open header block, which no other frame may interrupt; stream 0: none is open.
  std::uint32_t block_stream_ = 0;
  std::uint32_t block_bytes_ = 0;
  std::uint32_t continuations_ = 0;
  double work_ = 0;                                   // During this Take.
  std::array<std::uint32_t, kOpenCallsMax> calls_{};  // Streams; the first open_calls_ of them.
  std::size_t open_calls_ = 0;
  std::uint64_t calls_made_ = 0;
  TokenBucket pings_;
  TokenBucket settings_;
  TokenBucket resets_;
  TokenBucket others_;
};

}  // namespace mlxcomm::guard

// The sending half of a byte-stream rail: sends frames in order, in place. See README.md,
// FrameWriter.
//
//   Queue, QueueHeartbeat, Echo ──▶ outgoing ring ──Write──▶ stream ──▶ released ──▶ transmitted
//
// A stream may read payload in place after Write, of at most kUnreleasedMax frames. Sums are
// computed just before a frame is written, so that the payload is cached for the copy that follows.
//
// Owner: a rail. Thread: the driver's; sent_bytes on any. Memory: a ring of fixed size.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/rail/byte_stream.h"
#include "daemon/rail/frames.h"
#include "daemon/rail/rail_observer.h"
#include "daemon/rail/random_number.h"
#include "proto/system/file_descriptor.h"
#include "proto/types/link_reason.h"

struct iovec;

namespace mlxcomm::rail {

class FrameWriter {
 public:
  FrameWriter(const FileDescriptor& socket, ByteStream& stream)
      : socket_(socket),
        stream_(stream),
        has_sums_(!stream.is_encrypted()),
        outgoing_(kFramesMax),
        unreleased_(kUnreleasedMax) {}

  void Observe(RailObserver* observer) { observer_ = observer; }

  // Returns whether there is room for a frame and a heartbeat.
  bool HasRoom() const { return outgoing_count_ + 1 < kFramesMax; }
  // Needs room.
  void Queue(const OutgoingFrame& frame);
  void QueueHeartbeat(bool padded) {
    heartbeat_due_ = true;
    pads_heartbeat_ = pads_heartbeat_ || padded;
  }
  // May be called on any thread.
  void AskForNewProof() { asks_for_proof_.store(true, std::memory_order_relaxed); }
  bool asks_for_proof() const { return asks_for_proof_.load(std::memory_order_relaxed); }
  void Echo(const wire::FrameHeader& heartbeat);
  // Sends why this side no longer reads, and drops other frames. Returns true while the socket is
  // full.
  bool SendGivenUp(LinkReason why);

  // Returns whether the socket took something.
  bool Write();
  bool WantsToWrite() const {
    return error_ == 0 &&
           (outgoing_count_ > 0 || echo_due_ || heartbeat_due_ || stream_.HasUnsent());
  }
  bool is_empty() const { return outgoing_count_ == 0 && !stream_.HasUnsent(); }
  bool holds_large() const { return large_frames_ > 0; }
  int error() const { return error_; }
  bool is_blocked() const { return blocked_; }

  void CollectReleased();
  // Numbered frames that were written and released and not yet taken from here.
  std::uint32_t transmitted() const { return transmitted_; }
  std::uint32_t TakeTransmitted() { return std::exchange(transmitted_, 0); }
  std::uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kFramesMax = 1024;
  static constexpr std::size_t kBatchFrames = 16;
  // Frames are summed at most this far ahead of the socket.
  static constexpr std::size_t kSummedBytes = 512 * 1024;
  static constexpr std::size_t kUnreleasedMax = 1024;

  // Its header has sums once it has begun.
  struct Waiting {
    OutgoingFrame frame;
    bool has_sums = false;
  };
  Waiting& At(std::size_t i) { return outgoing_[(outgoing_first_ + i) % kFramesMax]; }
  static bool IsRepeated(const wire::FrameHeader& header) {
    return header.type == wire::FrameType::kData && (header.flags & wire::kRepeated) != 0;
  }
  bool Sum(Waiting& waiting);
  void GatherBatch(struct iovec* parts, std::size_t* part_count);
  bool OnNotWritten();
  void OnWritten(std::size_t bytes, std::uint64_t began_ns);
  void PutInFront(const OutgoingFrame& frame);
  void PutHeartbeat();

  const FileDescriptor& socket_;
  ByteStream& stream_;
  RailObserver* observer_ = nullptr;
  const bool has_sums_;            // The stream is not encrypted.
  std::vector<Waiting> outgoing_;  // A ring.
  std::size_t outgoing_first_ = 0;
  std::size_t outgoing_count_ = 0;
  std::size_t large_frames_ = 0;
  std::size_t front_written_ = 0;     // Bytes written of the first frame.
  std::uint64_t front_began_ns_ = 0;  // Only with an observer.
  std::uint32_t transmitted_ = 0;
  std::uint64_t written_frames_ = 0;
  std::uint64_t written_ = 0;              // Bytes of completely written frames.
  std::vector<std::uint64_t> unreleased_;  // A ring: the ends of frames that are still read.
  std::size_t unreleased_first_ = 0;
  std::size_t unreleased_count_ = 0;
  int error_ = 0;  // Why nothing more can be written.
  bool blocked_ = false;
  bool echo_due_ = false;
  bool heartbeat_due_ = false;
  bool pads_echo_ = false;
  bool pads_heartbeat_ = false;
  std::uint64_t echo_clock_ = 0;
  const std::uint64_t mark_ = RandomNumber();  // Identifies heartbeats.
  std::vector<std::byte> copy_;                // Data that is sent again.
  bool copy_waits_ = false;
  bool sent_given_up_ = false;
  std::atomic<bool> asks_for_proof_{false};
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace mlxcomm::rail

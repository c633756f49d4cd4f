// The sending half of a rail that carries bytes: frames wait here in order and go out straight from where
// they lie, as many at once as the stream takes. See README.md, FrameWriter.
//
//   Queue, Beat, Echo ──▶ outgoing ring ──Write──▶ stream ──▶ released ──▶ transmitted, not yet reported
//
// A stream may read payload where it lies for a while after it was written, of kUnreleasedMax frames at
// most.
//
// A frame's sums are taken when its turn comes: so the payload is in the cache for the copy that follows.
//
// Owner: a rail. Thread: its owner's; sent_bytes from any. Memory: a ring that is fixed at creation;
// payload is referenced until it has been written.
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
  // Both outlive it.
  FrameWriter(const FileDescriptor& socket, ByteStream& stream)
      : socket_(socket),
        stream_(stream),
        has_sums_(!stream.is_encrypted()),
        outgoing_(kFramesMax),
        unreleased_(kUnreleasedMax) {}

  // Before anything else; may be nullptr.
  void Observe(RailObserver* observer) { observer_ = observer; }

  // Room for a frame, and one place left for a sign of life.
  bool HasRoom() const { return outgoing_count_ + 1 < kFramesMax; }
  // Only if there is room. An acknowledgement goes in front of what waits.
  void Queue(const OutgoingFrame& frame);
  void Beat(bool padded) {
    heartbeat_due_ = true;
    pads_heartbeat_ = pads_heartbeat_ || padded;
  }
  // From here on heartbeats ask for it. Any thread.
  void AskForNewProof() { asks_for_proof_.store(true, std::memory_order_relaxed); }
  bool asks_for_proof() const { return asks_for_proof_.load(std::memory_order_relaxed); }
  void Echo(const wire::FrameHeader& heartbeat);
  // This side reads no more: tells why, behind the frame that has begun. Of what waits besides nothing is
  // written any more. To be repeated while it returns true: the socket takes no more now.
  bool SendGivenUp(LinkReason why);

  // What the socket takes. True: it took something.
  bool Write();
  bool WantsToWrite() const {
    return error_ == 0 &&
           (outgoing_count_ > 0 || echo_due_ || heartbeat_due_ || stream_.HasUnsent());
  }
  bool is_empty() const { return outgoing_count_ == 0 && !stream_.HasUnsent(); }
  // Frames of at least kLargeBytes.
  bool holds_large() const { return large_frames_ > 0; }
  int error() const { return error_; }
  // The socket took no more when it was last asked.
  bool is_blocked() const { return blocked_; }

  // What the stream reads no more counts as transmitted from now on.
  void CollectReleased();
  // Numbered frames written and released, and not taken from here yet.
  std::uint32_t transmitted() const { return transmitted_; }
  std::uint32_t TakeTransmitted() { return std::exchange(transmitted_, 0); }
  std::uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kFramesMax = 1024;
  static constexpr std::size_t kBatchFrames = 16;
  // What is summed ahead of what the socket has taken.
  static constexpr std::size_t kSummedBytes = 512 * 1024;
  static constexpr std::size_t kUnreleasedMax = 1024;

  // With sums, which are its own once it has begun.
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
  void PutSignOfLife();

  const FileDescriptor& socket_;
  ByteStream& stream_;
  RailObserver* observer_ = nullptr;
  const bool has_sums_;            // Frames get them: the stream is not encrypted.
  std::vector<Waiting> outgoing_;  // A ring.
  std::size_t outgoing_first_ = 0;
  std::size_t outgoing_count_ = 0;
  std::size_t large_frames_ = 0;
  std::size_t front_written_ = 0;     // Bytes of the first frame.
  std::uint64_t front_began_ns_ = 0;  // When they were; only where it is observed.
  std::uint32_t transmitted_ = 0;
  std::uint64_t written_frames_ = 0;
  std::uint64_t written_ = 0;              // Bytes, of frames that are all written.
  std::vector<std::uint64_t> unreleased_;  // A ring: where frames ended that are read still.
  std::size_t unreleased_first_ = 0;
  std::size_t unreleased_count_ = 0;
  int error_ = 0;  // Nothing can be written any more.
  bool blocked_ = false;
  bool echo_due_ = false;
  bool heartbeat_due_ = false;
  bool pads_echo_ = false;
  bool pads_heartbeat_ = false;
  std::uint64_t echo_clock_ = 0;
  const std::uint64_t mark_ = RandomNumber();  // Of signs of life.
  std::vector<std::byte> copy_;                // Of data that is sent again.
  bool copy_waits_ = false;                    // To be written.
  bool sent_given_up_ = false;
  std::atomic<bool> asks_for_proof_{false};
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace mlxcomm::rail

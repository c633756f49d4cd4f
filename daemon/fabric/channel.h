// The channel to one node: numbers frames, keeps them until they are acknowledged,
// and sends again what a lost rail may not have delivered.
//
//   queued ──NextToHand──▶ handed to a rail ──OnTransmitted──▶ written ──OnAcknowledged──▶ gone
//      ▲                        │                                │
//      └──────────── OnRailDown (all that is not acknowledged) ──┘
//
// A rail delivers in order or not at all, so what is received is one number, and
// after a rail is lost the introductions of the next one say where to go on.
// Payload above the eager size is referenced, not kept: it is released when
// acknowledged, or cancelled and no longer in a rail's hands.
//
// Sans-I/O, no time. Owner: Link. Thread: engine. Memory: a ring of frames that
// grows to the largest number ever queued, at most kFramesMax; eager payloads in
// slots that are reused; copied payload of all kinds at most kCopiedBytesMax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "daemon/fabric/growing_ring.h"
#include "proto/types/operation_key.h"
#include "proto/wire/frame.h"

namespace mlxcomm::fabric {

inline OperationKey KeyOf(const wire::FrameHeader& header) {
  return {header.group, header.number, header.source_rank, header.destination_rank, header.tag};
}

class Channel {
 public:
  static constexpr std::size_t kFramesMax = 65536;
  static constexpr std::uint64_t kCopiedBytesMax = 256 * 1024 * 1024;
  // What a rail may hold unwritten: little enough to be cancelled soon.
  static constexpr std::size_t kHandedFramesMax = 64;
  static constexpr std::uint64_t kHandedBytesMax = 4 * 1024 * 1024;

  struct Frame {
    wire::FrameHeader header;
    const std::byte* payload = nullptr;
  };
  enum class Arrival : std::uint8_t { kNext, kDuplicate, kViolation };

  // Copies payload of all but kData. RESOURCE_EXHAUSTED: too much is queued already.
  absl::Status Send(const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);
  // The next frame for the rail, in order; false: none, or the rail holds enough.
  bool NextToHand(Frame& frame);
  void OnTransmitted(std::size_t frames);
  // False: the peer acknowledges what was never sent.
  [[nodiscard]] bool OnAcknowledged(std::uint64_t sequence);
  // For each numbered frame that a rail delivers.
  Arrival OnReceived(std::uint64_t sequence);

  void Cancel(const OperationKey& key);
  void OnRailDown();
  // A rail is back, and the peer has everything below peer_next_expected.
  [[nodiscard]] bool Resume(std::uint64_t peer_next_expected);
  // Begins anew at sequence 1: everything queued is forgotten.
  void Reset();

  std::uint64_t next_expected() const { return next_expected_; }
  // All received up to here, for `acknowledged` of an outgoing frame.
  std::uint64_t received() const { return next_expected_ - 1; }
  // Cookies of payloads that will not be read again; the caller empties it.
  std::vector<std::uint64_t>& released() { return released_; }
  const std::vector<std::uint64_t>& released() const { return released_; }
  std::uint64_t duplicates() const { return duplicates_; }
  std::size_t queued() const { return frames_.size(); }
  bool all_handed() const { return handed_ == frames_.size(); }

 private:
  struct Outgoing {
    wire::FrameHeader header;
    const std::byte* payload = nullptr;
    std::uint64_t cookie = 0;
    std::int32_t slot = -1;                       // Eager payload.
    std::unique_ptr<std::vector<std::byte>> own;  // Control payload: rare.
    bool release_when_written = false;
  };
  bool IsCopied(const Outgoing& frame) const { return frame.slot >= 0 || frame.own != nullptr; }
  void Release(Outgoing& frame);
  void ReplaceByCancelled(Outgoing& frame);
  std::int32_t TakeSlot();

  GrowingRing<Outgoing> frames_;  // Not yet acknowledged, in order.
  std::size_t handed_ = 0;       // Of frames_, from the front.
  std::size_t written_ = 0;      // Of those, from the front.
  std::uint64_t handed_bytes_ = 0;
  std::uint64_t copied_bytes_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_expected_ = 1;
  std::uint64_t duplicates_ = 0;
  std::vector<std::uint64_t> released_;
  std::vector<std::unique_ptr<std::byte[]>> slots_;
  std::vector<std::int32_t> free_slots_;
};

}  // namespace mlxcomm::fabric

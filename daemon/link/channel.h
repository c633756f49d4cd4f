// The sending half between two nodes: numbers frames, keeps them until they are acknowledged, gives
// each to the rail on which it would arrive first, and resends lost ones. See README.md, Channel.
//
//   queued ──NextToSend──▶ under way on a rail ──OnAcknowledged / OnArrived──▶ gone
//      ▲                        │
//      └── its rail ended; or an unreliable rail lost it: a later frame was
//          acknowledged, or none for a while; or the peer asks for it (OnWanted)
//
// Memory: a ring that grows to the largest number of queued frames, at most queued_frames_max;
// copied payload, at most copied_bytes_max, small ones in reused slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "daemon/link/rail_flight.h"
#include "daemon/link/rail_set.h"
#include "daemon/rail/frames.h"
#include "daemon/rail/growing_ring.h"
#include "proto/types/operation_key.h"
#include "proto/wire/frame.h"

namespace mlxcomm::link {

class Channel {
 public:
  static constexpr std::size_t kRailsMax = 8;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // A peer may ask for a frame repeatedly while rails still hold earlier copies.
  static_assert(kRailsMax * RailFlight::kUnwrittenFramesMax < 65536, "they are counted in 16 bits");
  struct Limits {
    std::size_t frames_max = 65536;
    std::uint64_t copied_bytes_max = 256 * 1024 * 1024;
  };

  Channel() : Channel(Limits()) {}
  explicit Channel(const Limits& limits) : limits_(limits) {}

  // Copies the payload of all but kData frames. RESOURCE_EXHAUSTED: too much is queued.
  absl::Status Send(const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);

  void OnRailUp(std::size_t rail, bool reliable) {
    released_.reserve(wire::kWindow);
    flights_[rail].Open(reliable);
    open_.Add(rail);
  }
  // The rail no longer reads any payload.
  void OnRailDown(std::size_t rail);

  // Returns false if there is no frame, the window is full, or the best rail is full.
  // `reliable_control`: control frames take reliable rails, if any; otherwise both ends could wait
  // for each other.
  bool NextToSend(rail::OutgoingFrame& frame, std::size_t& rail, bool reliable_control);
  void OnTransmitted(std::size_t rail, std::size_t frames);
  void OnHeld(std::size_t rail, const rail::HeldBytes& held) { flights_[rail].OnHeld(held); }
  void OnRoundTrip(std::size_t rail, std::uint64_t min_ns) { flights_[rail].OnRoundTrip(min_ns); }
  // Acknowledges everything up to `sequence`. Returns false if the peer has acknowledged an unsent
  // frame.
  [[nodiscard]] bool OnAcknowledged(std::uint64_t sequence);
  [[nodiscard]] bool OnArrived(std::uint64_t sequence) { return AcknowledgeOne(sequence); }
  // The peer has dropped a copy of the frame and has no other.
  void OnWanted(std::uint64_t sequence);
  // After a batch of these: queues again what unreliable rails have lost.
  void FindLost();
  // At the beginning and end of a turn: stamps new frames, and queues again what has waited too
  // long.
  void OnNow(std::uint64_t now_ns);
  // When to call OnNow and NextToSend without an event; or kNever.
  std::uint64_t deadline_ns() const;

  void Cancel(const OperationKey& key);

  // Cookies of payloads that will not be read again; the caller empties it.
  std::vector<std::uint64_t>& released() { return released_; }
  const std::vector<std::uint64_t>& released() const { return released_; }
  std::size_t queued() const { return frames_.size(); }
  // The oldest unacknowledged number, or the next one.
  std::uint64_t oldest() const { return next_sequence_ - frames_.size(); }
  std::uint64_t copied_bytes() const { return copied_bytes_; }
  // Includes free slots.
  std::uint64_t slot_bytes() const;
  std::uint64_t resent() const { return resent_; }
  bool all_sent() const { return next_new_ == next_sequence_ && lost_.empty(); }
  const RailFlight& flight(std::size_t rail) const { return flights_[rail]; }

 private:
  enum class State : std::uint8_t { kQueued, kUnderWay, kLost };
  struct Outgoing : rail::OutgoingFrame {
    std::uint64_t cookie = 0;
    std::int32_t slot = -1;  // Small payload, in slots_[size].
    std::uint8_t size = 0;
    std::unique_ptr<std::vector<std::byte>> own;  // Control payload: rare.
    std::uint64_t ordinal = 0;                    // Its position on `rail`, if kUnderWay.
    State state = State::kQueued;
    std::uint8_t rail = 0;
    std::uint16_t readers = 0;  // Copies that rails have not written yet.
    bool acknowledged = false;
    bool cancelled = false;  // It is replaced once no rail reads it.
    bool released = false;
    bool wanted = false;  // The peer asked for it again.
  };
  // Bytes that the peer has to keep if an earlier frame is missing.
  static std::uint64_t EarlyBytes(const Outgoing& frame) {
    return frame.header.type == wire::FrameType::kData ? 0 : frame.header.payload_bytes;
  }
  absl::Status HasRoomFor(const wire::FrameHeader& header) const;
  Outgoing* Find(std::uint64_t sequence);
  Outgoing* NextOutgoing();
  bool ChooseRail(const Outgoing& frame, bool reliable_only, std::size_t& rail);
  void GiveUpOn(std::size_t rail, std::uint64_t ordinal);
  void OnReaderDone(std::uint64_t sequence);
  bool AcknowledgeOne(std::uint64_t sequence);
  void PopDone();
  void Release(Outgoing& frame);
  void ReplaceByCancelled(Outgoing& frame);
  struct Slots {
    std::vector<std::unique_ptr<std::byte[]>> all;
    std::vector<std::int32_t> free;
  };
  static constexpr std::array<std::uint32_t, 8> kSlotBytes = {
      128, 256, 512, 1024, 2048, 4096, 8192, wire::kSlotBytesMax};
  std::byte* TakeSlot(Outgoing& frame);

  Limits limits_;
  rail::GrowingRing<Outgoing> frames_;     // Kept in sequence order.
  rail::GrowingRing<std::uint64_t> lost_;  // Numbers to send again.
  std::array<RailFlight, kRailsMax> flights_;
  RailSet open_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_new_ = 1;      // The first that was never sent.
  std::uint64_t acknowledged_ = 0;  // All up to here.
  std::uint64_t copied_bytes_ = 0;
  std::size_t carried_frames_ = 0;  // Counts those for third nodes.
  std::uint64_t carried_bytes_ = 0;
  std::uint64_t early_bytes_ = 0;  // Copied, sent and not acknowledged.
  std::uint64_t resent_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t waits_until_ns_ = kNever;  // Frames wait until then for the best rail.
  std::uint64_t probe_ns_ = kNever;        // The next probe of an unreliable rail.
  std::vector<std::uint64_t> released_;
  std::array<Slots, kSlotBytes.size()> slots_;
};

}  // namespace mlxcomm::link

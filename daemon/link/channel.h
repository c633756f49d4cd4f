// The sending half of what joins two nodes: numbers frames, keeps them until they are acknowledged, gives
// each to the rail on which it would arrive first, and sends again what a rail has not delivered. The
// receiving half is arrival_order.h. See README.md, Channel.
//
//   queued ──NextToHand──▶ under way on a rail ──OnAcknowledged / OnArrived──▶ gone
//      ▲                        │
//      └── its rail has gone; or the rail may lose frames, and a later one on it was
//          acknowledged; or nothing was, for long; or the peer asks for it (OnWanted)
//
// Sans-I/O; time is an argument. Owner: Link. Thread: the loop's. Memory: a ring of frames that grows to
// the largest number ever queued, at most FabricOptions::queued_frames_max; small payloads in reused slots
// of 128 bytes, or of about twice the payload; copied payload of all kinds, at most copied_bytes_max.
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
  // A peer may ask for a frame again and again, while rails hold the copies before.
  static_assert(kRailsMax * RailFlight::kHandedFramesMax < 65536, "they are counted in 16 bits");
  struct Limits {
    std::size_t frames_max = 65536;
    std::uint64_t copied_bytes_max = 256 * 1024 * 1024;
  };

  Channel() : Channel(Limits()) {}
  explicit Channel(const Limits& limits) : limits_(limits) {}

  // Copies payload of all but kData. RESOURCE_EXHAUSTED: too much is queued already.
  absl::Status Send(const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);

  // A rail is a number below kRailsMax.
  void OnRailUp(std::size_t rail, bool reliable) {
    released_.reserve(wire::kWindow);
    flights_[rail].Open(reliable);
    open_.Add(rail);
  }
  // The rail touches no payload any more.
  void OnRailDown(std::size_t rail);

  // The next frame, and the rail that it goes to. False: there is none, the window is full,
  // or the rail on which it would arrive first is. `reliable_control`: control frames take
  // reliable rails only, if there are any; else both ends could wait for each other.
  bool NextToHand(rail::OutgoingFrame& frame, std::size_t& rail, bool reliable_control);
  void OnTransmitted(std::size_t rail, std::size_t frames);
  // What the system under the rail holds, as the rail reports it.
  void OnHeld(std::size_t rail, const rail::HeldBytes& held) { flights_[rail].OnHeld(held); }
  // The shortest round trip of a sign of life on it; 0: not known.
  void OnRoundTrip(std::size_t rail, std::uint64_t least_ns) {
    flights_[rail].OnRoundTrip(least_ns);
  }
  // Everything up to `sequence`. False: the peer acknowledges what was never handed.
  [[nodiscard]] bool OnAcknowledged(std::uint64_t sequence);
  // A single one. False: as above.
  [[nodiscard]] bool OnArrived(std::uint64_t sequence) { return AcknowledgeOne(sequence); }
  // The peer has dropped a copy of it, and has no other.
  void OnWanted(std::uint64_t sequence);
  // After a batch of the three: what unreliable rails have lost is queued again.
  void FindLost();
  // At the beginning of a turn, and at its end: frames handed since the last call get this
  // time. Queues again what has waited too long for an acknowledgement.
  void OnNow(std::uint64_t now_ns);
  // When OnNow and NextToHand have to be called although nothing happens; kNever: not.
  std::uint64_t deadline_ns() const;

  void Cancel(const OperationKey& key);
  // Begins again at sequence 1, without rails: everything queued is forgotten.
  void Reset();
  // After Reset: all that it has grown to.
  void GiveBackMemory();

  // Cookies of payloads that will not be read again; the caller empties it.
  std::vector<std::uint64_t>& released() { return released_; }
  const std::vector<std::uint64_t>& released() const { return released_; }
  std::size_t queued() const { return frames_.size(); }
  // The number of the oldest that is not acknowledged, or of the next one.
  std::uint64_t oldest() const { return next_sequence_ - frames_.size(); }
  std::uint64_t copied_bytes() const { return copied_bytes_; }
  // Of all slots, also those that are free.
  std::uint64_t slot_bytes() const;
  std::uint64_t resent() const { return resent_; }
  // Nothing waits for a rail.
  bool all_handed() const { return next_new_ == next_sequence_ && lost_.empty(); }
  const RailFlight& flight(std::size_t rail) const { return flights_[rail]; }

 private:
  enum class State : std::uint8_t { kQueued, kUnderWay, kLost };
  struct Outgoing {
    wire::FrameHeader header;
    const std::byte* payload = nullptr;
    std::uint64_t cookie = 0;
    std::int32_t slot = -1;  // Small payload, in slots_[size].
    std::uint8_t size = 0;
    std::unique_ptr<std::vector<std::byte>> own;  // Control payload: rare.
    std::uint64_t ordinal = 0;                    // kUnderWay: on `rail`.
    State state = State::kQueued;
    std::uint8_t rail = 0;
    std::uint16_t readers = 0;  // Copies that rails have not written yet.
    bool acknowledged = false;
    bool cancelled = false;  // Replaced once nobody reads it.
    bool released = false;   // Its payload.
    bool wanted = false;     // The other side has asked for it again.
  };
  // What the other side has to keep if something is missing before it.
  static std::uint64_t EarlyBytes(const Outgoing& frame) {
    return frame.header.type == wire::FrameType::kData ? 0 : frame.header.payload_bytes;
  }
  absl::Status HasRoomFor(const wire::FrameHeader& header) const;
  Outgoing* Find(std::uint64_t sequence);
  Outgoing* NextOutgoing();
  bool ChooseRail(const Outgoing& frame, bool reliable_only, std::size_t& rail);
  void GiveUpOn(std::size_t rail, std::uint64_t ordinal);
  void OnReadNoMore(std::uint64_t sequence);
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
  rail::GrowingRing<Outgoing> frames_;     // Not yet gone, in order of their numbers.
  rail::GrowingRing<std::uint64_t> lost_;  // Numbers to be handed again.
  std::array<RailFlight, kRailsMax> flights_;
  RailSet open_;  // Of flights_.
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_new_ = 1;      // The first that was never handed.
  std::uint64_t acknowledged_ = 0;  // All up to here.
  std::uint64_t copied_bytes_ = 0;
  std::size_t carried_frames_ = 0;  // For third nodes.
  std::uint64_t carried_bytes_ = 0;
  std::uint64_t early_bytes_ = 0;  // Copied, handed, beyond what is acknowledged.
  std::uint64_t resent_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t waits_until_ns_ = kNever;  // For the best rail.
  std::uint64_t probe_ns_ = kNever;        // Of unreliable rails.
  std::vector<std::uint64_t> released_;
  std::array<Slots, kSlotBytes.size()> slots_;
};

}  // namespace mlxcomm::link

// The frames under way on one rail, and how soon one more would arrive (README.md, RailFlight).
//
//   OnSent ──▶ unwritten ──OnTransmitted──▶ written ──OnDone──▶ gone
//                               (acknowledged, or lost; perhaps before the rail reports the write)
//
// Frames are sent without reading the clock; the next OnNow stamps them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/link/rail_meter.h"
#include "daemon/rail/frames.h"
#include "daemon/rail/growing_ring.h"

namespace mlxcomm::link {

class RailFlight {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Limits of what a rail holds unwritten: little, so that rails are chosen late, but enough until
  // the loop's next turn. On an unreliable rail, the maximum limits everything under way.
  static constexpr std::size_t kUnwrittenFramesMax = 64;
  static constexpr std::uint64_t kUnwrittenBytesMax = 4 * 1024 * 1024;
  static constexpr std::uint64_t kUnwrittenBytesMin = 512 * 1024;
  static constexpr std::uint64_t kUnwrittenBytesUnmeasured = 2 * 1024 * 1024;
  static constexpr double kUnwrittenSeconds = 0.002;

  struct Entry {
    std::uint64_t sequence = 0;
    std::uint64_t bytes = 0;
    std::uint64_t ahead_bytes = 0;  // Bytes that were under way when it was sent.
    std::uint64_t sent_ns = 0;
    bool timed = false;
    bool done = false;
  };

  void Open(bool reliable) {
    Close();
    reliable_ = reliable;
  }
  void Close();
  bool is_reliable() const { return reliable_; }

  std::uint64_t OnSent(std::uint64_t sequence, std::uint64_t bytes);
  void OnNow(std::uint64_t now_ns);
  bool has_unwritten() const { return written_ < end(); }
  std::uint64_t unwritten_frames() const { return end() - written_; }
  // The oldest unwritten frame has been written. Returns its sequence.
  std::uint64_t OnWritten();
  void OnAcknowledged(std::uint64_t ordinal, std::uint64_t now_ns);
  void OnGivenUp(std::uint64_t ordinal);
  void OnHeld(const rail::HeldBytes& held) {
    held_ = held;
    knows_held_ = true;
  }
  void OnRoundTrip(std::uint64_t min_ns) { meter_.OnRoundTrip(min_ns); }

  // Frames are [first(), end()), by ordinal.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return first_ + entries_.size(); }
  const Entry& At(std::uint64_t ordinal) { return EntryAt(ordinal); }
  bool has_untimed() const { return timed_ < end(); }

  // Returns the oldest frame that is neither acknowledged nor lost; end(): none.
  std::uint64_t Oldest();
  std::uint64_t OldestSinceNs(std::uint64_t now_ns) {
    const std::uint64_t oldest = Oldest();
    return oldest < end() && EntryAt(oldest).timed ? EntryAt(oldest).sent_ns : now_ns;
  }
  // Returns the time from now until `bytes` more would have arrived.
  std::uint64_t ArrivalNs(std::uint64_t bytes, double rate_unmeasured, std::uint64_t now_ns);
  // If the oldest frame waits longer than this, the estimate is at least its wait.
  std::uint64_t LateNs() const;
  // On a reliable rail only unwritten frames count: acknowledgements queue behind the peer's own
  // data.
  bool IsFull(bool alone = false) const;
  std::uint64_t bytes_under_way() const { return under_way_bytes_; }
  const RailMeter& meter() const { return meter_; }
  // Unreliable rails: when the oldest frame counts as lost without a later acknowledgement; or
  // kNever.
  std::uint64_t ProbeNs();
  // The oldest frame is given up. Frames sent from now on wait twice as long.
  void OnProbed();
  std::uint64_t acknowledged_end() const { return acknowledged_end_; }

 private:
  static constexpr std::uint64_t kLateNsMax = 100'000'000;
  static constexpr std::uint64_t kProbeNsMin = 10'000'000;
  static constexpr std::uint64_t kProbeNsUnmeasured = 100'000'000;
  static constexpr std::uint32_t kDoubledMax = 6;
  // An idle rail is tried again after this many times its estimate, so that the tries cost at most
  // 3 %.
  static constexpr std::uint64_t kTryAgainTimes = 32;
  static constexpr std::uint64_t kTryAgainNsMin = 1'000'000'000;

  Entry& EntryAt(std::uint64_t ordinal) {
    return entries_[static_cast<std::size_t>(ordinal - first_)];
  }
  void Done(Entry& entry);
  std::uint64_t PatienceNs(std::uint64_t ordinal) const;
  void PopDone();
  std::uint64_t UnwrittenBytesMax() const;
  double AheadBytes(double rate, std::uint64_t now_ns) const;

  bool reliable_ = true;
  rail::GrowingRing<Entry> entries_;
  std::uint64_t first_ = 0;
  std::uint64_t written_ = 0;  // Lower ordinals are written.
  std::uint64_t timed_ = 0;    // Lower ordinals have their time.
  std::uint64_t oldest_ = 0;   // Lower ordinals are not under way.
  std::uint64_t acknowledged_end_ = 0;
  std::uint64_t unwritten_bytes_ = 0;
  std::uint64_t under_way_bytes_ = 0;
  std::uint64_t under_way_frames_ = 0;
  std::uint64_t idle_since_ns_ = 0;  // 0 if busy, or never used.
  rail::HeldBytes held_;
  bool knows_held_ = false;
  std::uint32_t probes_ = 0;      // Counted since the last acknowledgement.
  std::uint64_t probed_end_ = 0;  // Lower ordinals were sent before the last probe.
  RailMeter meter_;
};

}  // namespace mlxcomm::link

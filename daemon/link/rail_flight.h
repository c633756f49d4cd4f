// What is under way on one rail, as its sender knows it: the frames that were given to it and are not
// acknowledged, in the order in which they were given, and how soon one more would arrive.
//
//   OnHanded ──▶ unwritten ──OnTransmitted──▶ written ──OnDone──▶ gone
//                                  (acknowledged, or given up as lost; perhaps before
//                                   the rail has said that it has written it)
//
// README.md, RailFlight, has the estimate. Frames are given in the middle of a turn of the loop, in which
// no clock is read for them; they get their time from the next OnNow.
//
// Sans-I/O. Owner: Channel. Thread: the loop's. Memory: a ring that grows to the largest number of frames
// that were ever under way.
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
  // What a rail may hold unwritten: some milliseconds' worth, so that it is chosen late, by
  // what other rails have carried meanwhile, and cancelled soon; and never so little that it
  // falls idle before the loop's next turn. An unreliable one, which nothing else holds
  // back, may have no more than the most under way at all.
  static constexpr std::size_t kHandedFramesMax = 64;
  static constexpr std::uint64_t kHandedBytesMax = 4 * 1024 * 1024;
  static constexpr std::uint64_t kHandedBytesMin = 512 * 1024;
  static constexpr std::uint64_t kHandedBytesUnmeasured = 2 * 1024 * 1024;
  static constexpr double kHandedSeconds = 0.002;

  struct Entry {
    std::uint64_t sequence = 0;
    std::uint64_t bytes = 0;
    std::uint64_t ahead_bytes = 0;  // Under way when it was handed.
    std::uint64_t handed_ns = 0;
    bool timed = false;
    bool done = false;
  };

  void Open(bool reliable) {
    Close();
    reliable_ = reliable;
  }
  void Close();
  bool is_reliable() const { return reliable_; }

  // Its ordinal on this rail.
  std::uint64_t OnHanded(std::uint64_t sequence, std::uint64_t bytes);
  void OnNow(std::uint64_t now_ns);
  bool has_unwritten() const { return written_ < end(); }
  std::uint64_t unwritten_frames() const { return end() - written_; }
  // The oldest unwritten frame has been written: its sequence.
  std::uint64_t OnWritten();
  void OnAcknowledged(std::uint64_t ordinal, std::uint64_t now_ns);
  void OnGivenUp(std::uint64_t ordinal);
  void OnHeld(const rail::HeldBytes& held) {
    held_ = held;
    knows_held_ = true;
  }
  void OnRoundTrip(std::uint64_t least_ns) { meter_.OnRoundTrip(least_ns); }

  // Frames [first(), end()), by ordinal.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return first_ + entries_.size(); }
  const Entry& At(std::uint64_t ordinal) { return EntryAt(ordinal); }
  bool has_untimed() const { return timed_ < end(); }

  // The oldest that is neither acknowledged nor given up; end(): none.
  std::uint64_t Oldest();
  // Since when that has been waiting; now if nothing is.
  std::uint64_t OldestSinceNs(std::uint64_t now_ns) {
    const std::uint64_t oldest = Oldest();
    return oldest < end() && EntryAt(oldest).timed ? EntryAt(oldest).handed_ns : now_ns;
  }
  // How long from now until `bytes` more would have arrived.
  std::uint64_t ArrivalNs(std::uint64_t bytes, double rate_unmeasured, std::uint64_t now_ns);
  // Once the oldest has been waiting for longer, the rail is judged by that.
  std::uint64_t LateNs() const;
  // As full as it may be. Of a reliable rail what is unwritten alone decides, not what is not
  // acknowledged yet: acknowledgements come back behind what the other side sends.
  // `alone`: there is no other rail, so nothing is chosen.
  bool IsFull(bool alone = false) const;
  std::uint64_t bytes_under_way() const { return under_way_bytes_; }
  const RailMeter& meter() const { return meter_; }
  // Of an unreliable rail: when the oldest frame under way is taken for lost although nothing
  // behind it has been acknowledged; kNever: nothing is under way.
  std::uint64_t ProbeNs();
  // The oldest is given up so. What is handed from now on waits twice as long.
  void OnProbed();
  // The highest that was acknowledged, plus one.
  std::uint64_t acknowledged_end() const { return acknowledged_end_; }

 private:
  static constexpr std::uint64_t kLateNsMax = 100'000'000;
  static constexpr std::uint64_t kProbeNsMin = 10'000'000;
  static constexpr std::uint64_t kProbeNsUnmeasured = 100'000'000;
  static constexpr std::uint32_t kDoubledMax = 6;
  // An idle rail is tried again after that many times what a frame is thought to take on it,
  // which makes the tries cost 3 % at most.
  static constexpr std::uint64_t kTryAgainTimes = 32;
  static constexpr std::uint64_t kTryAgainNsMin = 1'000'000'000;

  Entry& EntryAt(std::uint64_t ordinal) {
    return entries_[static_cast<std::size_t>(ordinal - first_)];
  }
  void Done(Entry& entry);
  std::uint64_t PatienceNs(std::uint64_t ordinal) const;
  void PopDone();
  std::uint64_t HandedBytesMax() const;
  double AheadBytes(double rate, std::uint64_t now_ns) const;

  bool reliable_ = true;
  rail::GrowingRing<Entry> entries_;
  std::uint64_t first_ = 0;
  std::uint64_t written_ = 0;  // Ordinals below it are written.
  std::uint64_t timed_ = 0;    // Ordinals below it have their time.
  std::uint64_t oldest_ = 0;   // No ordinal below it is under way.
  std::uint64_t acknowledged_end_ = 0;
  std::uint64_t unwritten_bytes_ = 0;
  std::uint64_t under_way_bytes_ = 0;
  std::uint64_t under_way_frames_ = 0;
  std::uint64_t idle_since_ns_ = 0;  // Nothing under way; 0: not so, or nothing has been yet.
  rail::HeldBytes held_;
  bool knows_held_ = false;
  std::uint32_t probes_ = 0;      // Since something was acknowledged.
  std::uint64_t probed_end_ = 0;  // Ordinals below it were handed before the last of them.
  RailMeter meter_;
};

}  // namespace mlxcomm::link

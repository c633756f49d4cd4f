#include "daemon/link/rail_flight.h"

#include <algorithm>
#include <utility>

namespace mlxcomm::link {

void RailFlight::Close() {
  entries_.clear();
  rail::GrowingRing<Entry> entries = std::move(entries_);
  *this = {};
  entries_ = std::move(entries);
}

std::uint64_t RailFlight::OnSent(std::uint64_t sequence, std::uint64_t bytes) {
  Entry& entry = entries_.emplace_back();
  entry.sequence = sequence;
  entry.bytes = bytes;
  entry.ahead_bytes = under_way_bytes_;
  unwritten_bytes_ += bytes;
  under_way_bytes_ += bytes;
  ++under_way_frames_;
  idle_since_ns_ = 0;
  return end() - 1;
}

void RailFlight::OnNow(std::uint64_t now_ns) {
  for (timed_ = std::max(timed_, first_); timed_ < end(); ++timed_) {
    Entry& entry = EntryAt(timed_);
    entry.sent_ns = now_ns;
    entry.timed = true;
    meter_.OnSent(entry.ahead_bytes);
  }
}

std::uint64_t RailFlight::OnWritten() {
  const Entry& entry = EntryAt(written_++);
  const std::uint64_t sequence = entry.sequence;
  unwritten_bytes_ -= entry.bytes;
  PopDone();
  return sequence;
}

void RailFlight::OnAcknowledged(std::uint64_t ordinal, std::uint64_t now_ns) {
  if (ordinal < first_) return;
  Entry& entry = EntryAt(ordinal);
  if (entry.done) return;
  acknowledged_end_ = std::max(acknowledged_end_, ordinal + 1);
  probes_ = 0;
  probed_end_ = 0;
  Done(entry);
  if (entry.timed) {
    meter_.OnDelivered({entry.bytes, entry.ahead_bytes, under_way_bytes_, entry.sent_ns}, now_ns);
  }
  if (under_way_frames_ == 0) idle_since_ns_ = now_ns;
  PopDone();
}

void RailFlight::OnGivenUp(std::uint64_t ordinal) {
  if (ordinal < first_) return;
  Entry& entry = EntryAt(ordinal);
  if (!entry.done) Done(entry);
  PopDone();
}

void RailFlight::Done(Entry& entry) {
  entry.done = true;
  under_way_bytes_ -= entry.bytes;
  --under_way_frames_;
}

void RailFlight::PopDone() {
  while (!entries_.empty() && first_ < written_ && entries_.front().done) {
    entries_.pop_front();
    ++first_;
  }
}

std::uint64_t RailFlight::Oldest() {
  oldest_ = std::max(oldest_, first_);
  while (oldest_ < end() && EntryAt(oldest_).done) ++oldest_;
  return oldest_;
}

std::uint64_t RailFlight::ArrivalNs(std::uint64_t bytes, double rate_unmeasured,
                                    std::uint64_t now_ns) {
  const double rate = meter_.measured() ? meter_.bytes_per_second() : rate_unmeasured;
  const double own = static_cast<double>(bytes) * 1e9 / rate;
  const double drained = AheadBytes(rate, now_ns) * 1e9 / rate;
  const double ahead = std::max(drained, static_cast<double>(meter_.latency_ns()));
  const auto expected = static_cast<std::uint64_t>(ahead + own);
  if (idle_since_ns_ != 0 &&
      now_ns - idle_since_ns_ >= std::max(kTryAgainNsMin, kTryAgainTimes * expected)) {
    return 0;
  }
  const std::uint64_t since = OldestSinceNs(now_ns);
  const std::uint64_t waited = now_ns > since ? now_ns - since : 0;
  return waited > LateNs() ? std::max(expected, waited) : expected;
}

double RailFlight::AheadBytes(double rate, std::uint64_t now_ns) const {
  const auto under_way = static_cast<double>(under_way_bytes_);
  if (!knows_held_) return under_way;
  // Bounded by the time acknowledgements take: a stalled rail would look empty.
  const std::uint64_t since_ns =
      now_ns > held_.at_ns ? std::min(now_ns - held_.at_ns, meter_.round_trip_ns()) : 0;
  const double drained = rate * static_cast<double>(since_ns) / 1e9;
  const double held = std::max(static_cast<double>(held_.bytes) - drained, 0.0);
  return std::min(under_way, static_cast<double>(unwritten_bytes_) + held);
}

std::uint64_t RailFlight::UnwrittenBytesMax() const {
  if (!reliable_) return kUnwrittenBytesMax;
  if (!meter_.measured()) return kUnwrittenBytesUnmeasured;
  const auto soon = static_cast<std::uint64_t>(meter_.bytes_per_second() * kUnwrittenSeconds);
  return std::clamp(soon, kUnwrittenBytesMin, kUnwrittenBytesMax);
}

std::uint64_t RailFlight::LateNs() const {
  return std::min(2 * meter_.round_trip_ns(), kLateNsMax);
}

bool RailFlight::IsFull(bool alone) const {
  const std::uint64_t frames = reliable_ ? end() - written_ : under_way_frames_;
  const std::uint64_t bytes = reliable_ ? unwritten_bytes_ : under_way_bytes_;
  return frames >= kUnwrittenFramesMax ||
         bytes >= (alone ? kUnwrittenBytesMax : UnwrittenBytesMax());
}

// Frames sent before the last probe wait no longer because of it. Otherwise frames that were all
// lost would be resent one by one, each after twice the time.
std::uint64_t RailFlight::PatienceNs(std::uint64_t ordinal) const {
  const std::uint64_t round_trip = meter_.round_trip_ns();
  const std::uint32_t probes = ordinal < probed_end_ ? probes_ - 1 : probes_;
  return (round_trip == 0 ? kProbeNsUnmeasured : std::max(kProbeNsMin, 4 * round_trip))
         << std::min(probes, kDoubledMax);
}

void RailFlight::OnProbed() {
  if (Oldest() < probed_end_) return;
  probes_ = std::min(probes_, kDoubledMax) + 1;
  probed_end_ = end();
}

std::uint64_t RailFlight::ProbeNs() {
  const std::uint64_t oldest = Oldest();
  if (oldest == end() || !EntryAt(oldest).timed) return kNever;
  return EntryAt(oldest).sent_ns + PatienceNs(oldest);
}

}  // namespace mlxcomm::link

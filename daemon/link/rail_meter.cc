#include "daemon/link/rail_meter.h"

#include <algorithm>

namespace mlxcomm::link {

void RailMeter::OnSent(std::uint64_t ahead_bytes) {
  if (ahead_bytes == 0) busy_.open = false;
}

void RailMeter::OnDelivered(const Delivery& delivery, std::uint64_t now_ns) {
  if (span_end_ns_ != 0 && now_ns > span_end_ns_) EndSpan();
  MeasureLatency(delivery, now_ns);
  RaiseByOne(delivery, now_ns);
  if (!busy_.open) busy_ = {.begin_ns = now_ns, .open = true};
  // Bytes acknowledged at the beginning arrived before it.
  if (now_ns > busy_.begin_ns) {
    busy_.bytes += delivery.bytes;
    ++busy_.frames;
  }
  if (!WasBusy(delivery, now_ns)) busy_.full = false;
  const bool idle = delivery.left_bytes == 0;
  const std::uint64_t span_ns = span_.ns + now_ns - busy_.begin_ns;
  const bool reports = span_.frames + busy_.frames >= kSpanFrames || span_ns >= kSpanNsLong;
  const std::uint64_t enough_ns = idle ? kSpanNsMin : std::max(kSpanNs, round_trip_ns_);
  const bool ends = reports && span_ns >= enough_ns;
  span_end_ns_ = ends ? now_ns : 0;
  if (!idle) return;
  EndBusy(now_ns);
  if (ends) EndSpan();
}

// Includes everything that was acknowledged at its end.
void RailMeter::EndSpan() {
  const bool continues = busy_.open;
  span_taken_ns_ = span_end_ns_;
  if (continues) EndBusy(span_end_ns_);
  if (span_.ns > 0) TakeSpan();
  span_ = {};
  if (continues) busy_ = {.begin_ns = span_end_ns_, .open = true};
  span_end_ns_ = 0;
}

// Few bytes that pass quickly do not show what the rail could carry.
void RailMeter::EndBusy(std::uint64_t now_ns) {
  busy_.open = false;
  if (busy_.bytes < kOneBytesMin) return;
  span_.ns += now_ns - busy_.begin_ns;
  span_.bytes += busy_.bytes;
  span_.frames += busy_.frames;
  span_.full = span_.full && busy_.full;
}

// A rail that seems slow gets one frame at a time, and no span is long enough; but one whole
// frame's rate is a lower bound. Recent spans are better, because a buffer on the path takes the
// first frames at once.
void RailMeter::RaiseByOne(const Delivery& delivery, std::uint64_t now_ns) {
  if (delivery.ahead_bytes > 0 || delivery.bytes < kOneBytesMin) return;
  if (rate_ == 0 || now_ns <= delivery.sent_ns) return;
  const bool of_late = now_ns - span_taken_ns_ < kSpanCountsNs;
  if (of_late && ++lone_frames_ < kLoneFrames) return;
  const double rate =
      static_cast<double>(delivery.bytes) * 1e9 / static_cast<double>(now_ns - delivery.sent_ns);
  if (rate > rate_) rate_ += (rate - rate_) / 2;
  best_ = std::max(best_, rate_);
}

// Enough was under way to fill it at its known rate; or, if it is slower than that, the frame had
// to queue.
bool RailMeter::WasBusy(const Delivery& delivery, std::uint64_t now_ns) const {
  const double held = rate_ * static_cast<double>(latency_ns()) / 1e9;
  return static_cast<double>(delivery.left_bytes + delivery.bytes) >= held ||
         (delivery.ahead_bytes > 0 && now_ns - delivery.sent_ns > 2 * latency_ns());
}

void RailMeter::TakeSpan() {
  lone_frames_ = 0;
  if (span_.full) busy_bytes_ += span_.bytes;
  const double rate = static_cast<double>(span_.bytes) * 1e9 / static_cast<double>(span_.ns);
  if (rate_ == 0) {
    rate_ = rate;
    TakeWritingFromLatency();
  } else if (span_.full || rate > rate_) {
    // Limits a span's weight: it may be long because of one lost segment.
    const double ns = std::min(static_cast<double>(span_.ns), 3 * kMemoryNs);
    rate_ += (rate - rate_) * ns / (ns + kMemoryNs);
  }
  best_ = std::max(best_, rate_);
}

void RailMeter::MeasureLatency(const Delivery& delivery, std::uint64_t now_ns) {
  const std::uint64_t took = now_ns - delivery.sent_ns;
  round_trip_ns_ = round_trip_ns_ == 0 ? took : round_trip_ns_ - round_trip_ns_ / 8 + took / 8;
  if (delivery.ahead_bytes > 0 && latency_ns() != 0) return;
  const std::uint64_t writing = rate_ > 0 ? WritingNs(delivery.bytes) : 0;
  const std::uint64_t latency = took > writing ? took - writing : 0;
  if (latency_now_ != kUnknown && now_ns - latency_epoch_ns_ >= kLatencyEpochNs) {
    latency_before_ = latency_now_;
    latency_now_ = kUnknown;
  }
  if (latency_now_ == kUnknown) latency_epoch_ns_ = now_ns;
  if (latency >= latency_now_) return;
  latency_now_ = latency;
  latency_with_bytes_ = delivery.bytes + delivery.ahead_bytes;
}

// Only the rate shows how much of the latency was writing.
void RailMeter::TakeWritingFromLatency() {
  if (latency_now_ == kUnknown) return;
  const std::uint64_t writing = WritingNs(latency_with_bytes_);
  latency_now_ = latency_now_ > writing ? latency_now_ - writing : kUnknown;
}

void RailMeter::OnRoundTrip(std::uint64_t min_ns) {
  if (min_ns > 0) latency_bound_ = 2 * min_ns;
}

std::uint64_t RailMeter::latency_ns() const {
  const std::uint64_t least = std::min({latency_now_, latency_before_, latency_bound_});
  return least == kUnknown ? 0 : least;
}

}  // namespace mlxcomm::link

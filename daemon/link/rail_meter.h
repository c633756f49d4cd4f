// Measures one rail from acknowledgements: its rate while busy, and the shortest time from sending
// a frame to its acknowledgement. Idle times do not count. See README.md, RailMeter.
#pragma once

#include <cstdint>

namespace mlxcomm::link {

class RailMeter {
 public:
  struct Delivery {
    std::uint64_t bytes = 0;
    std::uint64_t ahead_bytes = 0;  // Bytes that were under way when it was sent.
    std::uint64_t left_bytes = 0;   // Still under way.
    std::uint64_t sent_ns = 0;
  };
  void OnSent(std::uint64_t ahead_bytes);
  void OnDelivered(const Delivery& delivery, std::uint64_t now_ns);
  // The shortest heartbeat round trip; 0: none has come back yet.
  void OnRoundTrip(std::uint64_t min_ns);

  bool measured() const { return rate_ > 0; }
  double bytes_per_second() const { return rate_; }  // 0: unknown.
  double bytes_per_second_best() const { return best_; }
  std::uint64_t busy_bytes() const { return busy_bytes_; }        // Delivered while it was full.
  std::uint64_t latency_ns() const;                               // 0: unknown.
  std::uint64_t round_trip_ns() const { return round_trip_ns_; }  // Smoothed, with queueing.

 private:
  // A busy period: since the rail was idle, or since the last span.
  struct Busy {
    std::uint64_t begin_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;
    bool open = false;
    bool full = true;  // Enough was under way at all times.
  };
  // Several busy periods without the idle times between them.
  struct Span {
    std::uint64_t ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;
    bool full = true;
  };
  static constexpr std::uint64_t kSpanNs = 5'000'000;
  static constexpr std::uint64_t kSpanNsMin = 1'000'000;  // If the rail becomes idle.
  // Acknowledgements arrive in bunches, so a span of fewer frames counts only if it is long.
  static constexpr std::uint64_t kSpanFrames = 8;
  static constexpr std::uint64_t kSpanNsLong = 500'000'000;
  static constexpr std::uint64_t kOneBytesMin = 128 * 1024;  // Buffers take less at once.
  // A span this long weighs as much as all before it, because shorter ones are uneven; the limit is
  // 3 times.
  static constexpr double kMemoryNs = 15e6;
  // A frame that finds the rail empty counts if no span ended for this long, or after this many of
  // them.
  static constexpr std::uint64_t kSpanCountsNs = 500'000'000;
  static constexpr std::uint32_t kLoneFrames = 4;
  static constexpr std::uint64_t kLatencyEpochNs = 5'000'000'000;
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  void RaiseByOne(const Delivery& delivery, std::uint64_t now_ns);
  bool WasBusy(const Delivery& delivery, std::uint64_t now_ns) const;
  void EndBusy(std::uint64_t now_ns);
  void EndSpan();
  void TakeSpan();
  std::uint64_t WritingNs(std::uint64_t bytes) const {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 / rate_);
  }
  void TakeWritingFromLatency();
  void MeasureLatency(const Delivery& delivery, std::uint64_t now_ns);

  double rate_ = 0;
  double best_ = 0;
  std::uint64_t busy_bytes_ = 0;
  Busy busy_;
  Span span_;
  std::uint64_t span_taken_ns_ = 0;
  std::uint64_t span_end_ns_ = 0;  // The span is long enough, but more may arrive at this moment.
  std::uint32_t lone_frames_ = 0;  // Found the rail empty, since the last span.
  std::uint64_t latency_now_ = kUnknown;  // Minimum of this epoch.
  std::uint64_t latency_before_ = kUnknown;
  std::uint64_t latency_with_bytes_ = 0;  // The bytes of that frame and of those ahead of it.
  std::uint64_t latency_epoch_ns_ = 0;
  std::uint64_t latency_bound_ = kUnknown;  // Derived from heartbeats.
  std::uint64_t round_trip_ns_ = 0;
};

}  // namespace mlxcomm::link

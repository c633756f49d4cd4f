// How fast one rail is, measured from acknowledgements: its rate while it is busy, and the shortest time
// from giving a frame to the rail to its acknowledgement. Idle times are left out of the rate, so a rail
// that gets only some frames at a time is measured too. See README.md, RailMeter.
//
// Sans-I/O. Owner: RailFlight. Thread: the loop's. Memory: fixed.
#pragma once

#include <cstdint>

namespace mlxcomm::link {

class RailMeter {
 public:
  // A frame that was acknowledged.
  struct Delivery {
    std::uint64_t bytes = 0;
    std::uint64_t ahead_bytes = 0;  // Under way when it was handed.
    std::uint64_t left_bytes = 0;   // Under way still.
    std::uint64_t handed_ns = 0;
  };
  // `ahead_bytes`: what was under way before it.
  void OnHanded(std::uint64_t ahead_bytes);
  void OnDelivered(const Delivery& delivery, std::uint64_t now_ns);
  // The least that a sign of life has taken, there and back; 0: none has come back yet.
  void OnRoundTrip(std::uint64_t least_ns);

  bool measured() const { return rate_ > 0; }
  double bytes_per_second() const { return rate_; }  // 0: not yet known.
  double bytes_per_second_best() const { return best_; }
  std::uint64_t busy_bytes() const { return busy_bytes_; }        // Delivered while it was full.
  std::uint64_t latency_ns() const;                               // 0: not yet known.
  std::uint64_t round_trip_ns() const { return round_trip_ns_; }  // Smoothed, with queueing.

 private:
  // Since it was idle, or since the last span.
  struct Busy {
    std::uint64_t begin_ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;
    bool open = false;
    bool full = true;  // Enough was under way all the time.
  };
  // Some of them one after the other, without the idle times between.
  struct Span {
    std::uint64_t ns = 0;
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;
    bool full = true;
  };
  static constexpr std::uint64_t kSpanNs = 5'000'000;
  static constexpr std::uint64_t kSpanNsMin = 1'000'000;  // Where the rail falls idle.
  // Acknowledgements come in bunches, some frames at once: the time of fewer frames than
  // that says little, unless it is long.
  static constexpr std::uint64_t kSpanFrames = 8;
  static constexpr std::uint64_t kSpanNsLong = 500'000'000;
  static constexpr std::uint64_t kOneBytesMin = 128 * 1024;  // Buffers take less at once.
  // A span as long as this counts as much as all before it: acknowledgements of short ones are
  // too uneven. None counts more than three times as much.
  static constexpr double kMemoryNs = 15e6;
  // Frames that find the rail empty count once no span was taken for this long, or once there
  // are this many of them.
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
  std::uint64_t span_end_ns_ = 0;  // It is long enough, but more may come at that moment; 0: not.
  std::uint32_t lone_frames_ = 0;  // That found the rail empty, since the last span.
  std::uint64_t latency_now_ = kUnknown;  // The least of this epoch and of the last.
  std::uint64_t latency_before_ = kUnknown;
  std::uint64_t latency_with_bytes_ = 0;  // The frame of the least, and what was ahead of it.
  std::uint64_t latency_epoch_ns_ = 0;
  std::uint64_t latency_bound_ = kUnknown;  // By signs of life.
  std::uint64_t round_trip_ns_ = 0;
};

}  // namespace mlxcomm::link

// A cable between two hosts: its rate and latency, whether frames get through, and whether the
// hosts notice when they do not. Each direction carries one message after the other, and a message
// arrives `latency` after its last byte has left.
//
// Owner: World. Thread: one. Memory: plain values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

class Connection;

struct CableOptions {
  std::string name;
  std::uint64_t bytes_per_second = 1'000'000'000;
  std::uint64_t latency_ns = 10 * kMicrosecond;
  std::uint64_t jitter_ns = 0;           // At most this much more for each message.
  bool reliable = true;                  // Like TCP: nothing is lost while the connection lasts.
  std::uint32_t lost_of_million = 0;     // Messages; unreliable ones only.
  bool carrier_reports = true;           // Both hosts immediately notice that it is pulled.
  bool places_in_parts = false;          // A payload's first byte arrives before its last.
  std::uint64_t window_bytes = 4 << 20;  // Written and not yet read by the other side.
};

class Cable {
 public:
  struct Crossing {
    std::uint64_t leave_ns = 0;   // The last byte has left this side.
    std::uint64_t arrive_ns = 0;  // It has arrived.
  };

  Cable(CableOptions options, Random random) : options_(std::move(options)), random_(random) {}

  const CableOptions& options() const { return options_; }
  bool up() const { return up_; }
  // From now on, in both directions.
  void SetRate(std::uint64_t bytes_per_second) { options_.bytes_per_second = bytes_per_second; }
  void SetUp(bool up) { up_ = up; }
  // Nothing larger than kSmallBytes passes: an MTU on the path is smaller than those of its ends.
  static constexpr std::uint64_t kSmallBytes = 1400;
  void SetSmallOnly(bool small_only) { small_only_ = small_only; }
  bool Passes(std::uint64_t bytes) const { return !small_only_ || bytes <= kSmallBytes; }
  // A proxy on the path loses what arrives, and the connection continues. Reliable cables only.
  void SetSwallows(bool swallows) { swallows_ = swallows; }
  bool Swallows() const { return swallows_; }
  void SetFlips(std::uint32_t flipped_of_million) { flipped_of_million_ = flipped_of_million; }
  // A bit of this message was flipped.
  bool Flips() { return flipped_of_million_ > 0 && random_.Below(1'000'000) < flipped_of_million_; }
  std::uint64_t BitOf(std::uint64_t bits) { return random_.Below(bits); }
  bool Loses() {
    return !options_.reliable && options_.lost_of_million > 0 &&
           random_.Below(1'000'000) < options_.lost_of_million;
  }

  // Occupies that direction for a message of this many bytes.
  Crossing Cross(int from, std::uint64_t bytes, std::uint64_t now_ns) {
    std::uint64_t& busy_until_ns = busy_until_ns_[static_cast<std::size_t>(from)];
    busy_until_ns = std::max(now_ns, busy_until_ns) + TimeFor(bytes, options_.bytes_per_second);
    const std::uint64_t jitter = options_.jitter_ns > 0 ? random_.Below(options_.jitter_ns) : 0;
    return {busy_until_ns, busy_until_ns + options_.latency_ns + jitter};
  }

  // Connections that are open, or whose end one side does not know of yet; World owns them.
  std::vector<std::weak_ptr<Connection>> connections;

 private:
  static std::uint64_t TimeFor(std::uint64_t bytes, std::uint64_t bytes_per_second) {
    const auto product = static_cast<unsigned __int128>(bytes) * kSecond;
    return static_cast<std::uint64_t>(product / bytes_per_second);
  }

  CableOptions options_;
  Random random_;
  bool up_ = true;
  std::uint32_t flipped_of_million_ = 0;
  bool small_only_ = false;
  bool swallows_ = false;
  std::array<std::uint64_t, 2> busy_until_ns_ = {};
};

}  // namespace mlxcomm::sim

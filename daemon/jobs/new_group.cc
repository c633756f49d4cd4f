#include "daemon/jobs/new_group.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <openssl/sha.h>

namespace mlxcomm::jobs {
namespace {

constexpr std::uint64_t kLatencyNsMin = std::uint64_t{1} << 10;
constexpr std::uint64_t kLatencyNsMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kBytesPerSecondMin = 1'000'000;
constexpr std::uint64_t kBytesPerSecondMax = 1'000'000'000'000;
constexpr std::uint32_t kLinksPerNodeMax = 64;
constexpr std::uint32_t kRoundTripsMin = 4;

template <typename Number>
Number Within(Number value, Number least, Number most) {
  return value == 0 ? 0 : std::clamp(value, least, most);
}

// 0 if not measured.
template <typename Number>
Number Worse(Number a, Number b, bool larger_is_worse) {
  if (a == 0 || b == 0) return std::max(a, b);
  return larger_is_worse ? std::max(a, b) : std::min(a, b);
}

}  // namespace

std::uint64_t SplitGroupId(std::uint64_t parent, std::uint64_t number,
                           std::span<const std::uint32_t> ranks) {
  // Little-endian on every system that the daemon runs on (proto/wire/frame.h).
  std::vector<unsigned char> words(2 * sizeof(std::uint64_t) + ranks.size_bytes());
  std::memcpy(words.data(), &parent, sizeof parent);
  std::memcpy(words.data() + sizeof parent, &number, sizeof number);
  if (!ranks.empty()) {
    std::memcpy(words.data() + 2 * sizeof parent, ranks.data(), ranks.size_bytes());
  }
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(words.data(), words.size(), digest.data());
  std::uint64_t id = 0;
  std::memcpy(&id, digest.data(), sizeof id);
  return id == 0 ? 1 : id;
}

v1::LinkCosts MeasureCosts(const v1::NodeStatus& links) {
  std::uint64_t round_trip_ns = 0;
  std::set<std::string> interfaces;
  for (const v1::LinkStatus& link : links.links()) {
    std::uint64_t quickest_ns = 0;  // A frame takes the rail on which it arrives first.
    for (const v1::RailStatus& rail : link.rails()) {
      if (rail.state() != v1::RailState::up) continue;
      // The first few may all have waited for a busy machine.
      if (rail.round_trips() >= kRoundTripsMin) {
        quickest_ns = Worse(quickest_ns, rail.round_trip_ns_min(), /*larger_is_worse=*/false);
      }
      if (!rail.local_interface().empty()) interfaces.insert(rail.local_interface());
    }
    round_trip_ns = std::max(round_trip_ns, quickest_ns);
  }
  v1::LinkCosts costs;
  if (round_trip_ns > 0) {
    const int log2 = std::countr_zero(std::bit_ceil(std::min(round_trip_ns / 2, kLatencyNsMax)));
    costs.set_latency_ns(std::uint64_t{1} << (log2 + log2 % 2));
  }
  costs.set_links_per_node(static_cast<std::uint32_t>(interfaces.size()));
  return BoundedCosts(costs);
}

v1::LinkCosts BoundedCosts(const v1::LinkCosts& reported) {
  v1::LinkCosts costs;
  costs.set_latency_ns(Within(reported.latency_ns(), kLatencyNsMin, kLatencyNsMax));
  costs.set_bytes_per_second(
      Within(reported.bytes_per_second(), kBytesPerSecondMin, kBytesPerSecondMax));
  costs.set_links_per_node(Within(reported.links_per_node(), 1u, kLinksPerNodeMax));
  return costs;
}

void TakeWorse(const v1::LinkCosts& other, v1::LinkCosts& worst) {
  worst.set_latency_ns(Worse(other.latency_ns(), worst.latency_ns(), true));
  worst.set_bytes_per_second(Worse(other.bytes_per_second(), worst.bytes_per_second(), false));
  worst.set_links_per_node(Worse(other.links_per_node(), worst.links_per_node(), false));
}

}  // namespace mlxcomm::jobs

#include "tests/bench/peers/pause.h"

#include <algorithm>
#include <cmath>

#include "tests/bench/peers/timed_all_reduce.h"

namespace mlxcomm::bench {

Pause::Pause(double seconds)
    : seconds_(seconds), swept_(seconds > 0 ? kSweptBytes / sizeof(float) : 0) {}

std::uint32_t Pause::NextTick(double now, double telling_seconds) const {
  const double moment = now + telling_seconds + seconds_;
  const auto tick = static_cast<std::uint64_t>(std::ceil(moment / kTickSeconds));
  return static_cast<std::uint32_t>(tick % kTicks);
}

std::optional<double> Pause::MomentOf(std::uint32_t tick, double now) {
  const auto current = static_cast<std::uint64_t>(now / kTickSeconds);
  const auto ahead = static_cast<std::uint32_t>((tick + kTicks - current % kTicks) % kTicks);
  if (ahead * kTickSeconds > kAheadSecondsMax) return std::nullopt;
  return static_cast<double>(current + ahead) * kTickSeconds;
}

void Pause::ComputeUntil(double moment) {
  constexpr std::size_t kBetweenLooks = 512;  // Less than a microsecond's, also from memory.
  while (Now() < moment) {
    const std::size_t end = std::min(next_ + kBetweenLooks, swept_.size());
    for (; next_ < end; ++next_) swept_[next_] = swept_[next_] * 0.5F + 1.0F;
    if (next_ == swept_.size()) next_ = 0;
  }
}

}  // namespace mlxcomm::bench

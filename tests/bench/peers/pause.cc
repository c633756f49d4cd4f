#include "tests/bench/peers/pause.h"

#include <algorithm>
#include <cmath>

#include "tests/bench/peers/timed_all_reduce.h"

namespace mlxcomm::bench {

Pause::Pause(double seconds)
    : seconds_(seconds), swept_(seconds > 0 ? kSweptBytes / sizeof(float) : 0) {}

std::uint32_t Pause::NextTick() const {
  const auto tick = static_cast<std::uint64_t>(std::ceil((Now() + seconds_) / kTickSeconds));
  return static_cast<std::uint32_t>(tick % kTicks);
}

double Pause::MomentOf(std::uint32_t tick) {
  const auto now = static_cast<std::uint64_t>(Now() / kTickSeconds);
  const auto ahead = static_cast<std::uint32_t>((tick + kTicks - now % kTicks) % kTicks);
  return ahead > kTicks / 2 ? 0 : static_cast<double>(now + ahead) * kTickSeconds;
}

void Pause::ComputeUntil(double moment) {
  constexpr std::size_t kBetweenLooks = 4096;  // About a microsecond's.
  while (Now() < moment) {
    const std::size_t end = std::min(next_ + kBetweenLooks, swept_.size());
    for (; next_ < end; ++next_) swept_[next_] = swept_[next_] * 0.5F + 1.0F;
    if (next_ == swept_.size()) next_ = 0;
  }
}

}  // namespace mlxcomm::bench

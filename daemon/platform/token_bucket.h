// A rate limit, in virtual or real time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mlxcomm::platform {

// `burst` at once, then `per_second`.
struct Rate {
  double burst = 0;
  double per_second = 0;
};

class TokenBucket {
 public:
  explicit TokenBucket(Rate rate, std::uint64_t now_ns = 0)
      : rate_(rate), tokens_(rate.burst), then_ns_(now_ns) {}

  // Takes the tokens if enough are available.
  bool TakeIfAny(double tokens, std::uint64_t now_ns) {
    Fill(now_ns);
    if (tokens_ < tokens) return false;
    tokens_ -= tokens;
    return true;
  }
  // Takes the tokens in any case, down to a limit. False if there are too few; the caller should
  // wait for WaitNs().
  bool Take(double tokens, std::uint64_t now_ns) {
    Fill(now_ns);
    tokens_ = std::max(tokens_ - tokens, -rate_.per_second * kDebtSecondsMax);
    return tokens_ >= 0;
  }
  // Time until the debt is repaid; 0 if there is none.
  std::uint64_t WaitNs(std::uint64_t now_ns) {
    Fill(now_ns);
    return tokens_ >= 0 ? 0 : static_cast<std::uint64_t>(-tokens_ / rate_.per_second * 1e9) + 1;
  }
  bool IsFull(std::uint64_t now_ns) const { return At(now_ns) >= rate_.burst; }

  // The longest possible wait.
  static constexpr double kDebtSecondsMax = 5;

 private:
  double At(std::uint64_t now_ns) const {
    const std::uint64_t past_ns = now_ns > then_ns_ ? now_ns - then_ns_ : 0;
    return std::min(tokens_ + static_cast<double>(past_ns) / 1e9 * rate_.per_second, rate_.burst);
  }
  void Fill(std::uint64_t now_ns) {
    tokens_ = At(now_ns);
    then_ns_ = std::max(then_ns_, now_ns);
  }

  Rate rate_;
  double tokens_;
  std::uint64_t then_ns_;
};

}  // namespace mlxcomm::platform

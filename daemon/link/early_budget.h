// How much all links together keep of what has come too early. One link may keep wire::kEarlyBytesMax, for
// so much may an honest peer have under way while a frame before it is missing; but many that do so at once
// are more likely inventions. Each link has a share of its own, so that others' cannot take all.
//
// Owner: Links. Thread: the loop's.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mlxcomm::fabric {

class EarlyBudget {
 public:
  static constexpr std::uint64_t kOwnBytes = 2 * 1024 * 1024;
  static constexpr std::uint64_t kSharedBytesMax = 128 * 1024 * 1024;

  // For a link that has `held` bytes. False: there is no room, and nothing was taken.
  bool Take(std::uint64_t held, std::uint64_t bytes) {
    const std::uint64_t more = Beyond(held + bytes) - Beyond(held);
    if (shared_ + more > kSharedBytesMax) return false;
    shared_ += more;
    return true;
  }
  void GiveBack(std::uint64_t held, std::uint64_t bytes) {
    shared_ -= Beyond(held) - Beyond(held - bytes);
  }
  std::uint64_t shared_bytes() const { return shared_; }

 private:
  static std::uint64_t Beyond(std::uint64_t held) { return held - std::min(held, kOwnBytes); }

  std::uint64_t shared_ = 0;
};

}  // namespace mlxcomm::fabric

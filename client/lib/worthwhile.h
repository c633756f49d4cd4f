// Decides whether to try something, by how often it succeeded lately: while it did in a quarter of
// the last tries, and otherwise every 32nd time.
//
// Owner: FirstLooks. Thread: one at a time.
#pragma once

#include <cstdint>

namespace mlxcomm::client {

class Worthwhile {
 public:
  bool IsLikely() const { return share_ >= kAlways / 4; }
  // Call before each decision. A try that follows ends with Learn.
  bool Next() { return IsLikely() || ++refused_ % kRefusedBeforeTrial == 0; }
  void Learn(bool succeeded) { share_ = share_ - share_ / 8 + (succeeded ? kAlways / 8 : 0); }

 private:
  static constexpr std::uint32_t kAlways = 1024;
  static constexpr std::uint32_t kRefusedBeforeTrial = 32;

  std::uint32_t share_ = kAlways;  // Successes of the last tries; the newest count most.
  std::uint32_t refused_ = 0;
};

}  // namespace mlxcomm::client

// Random numbers of the simulator: the same with every machine and compiler, unlike the standard
// library's distributions.
//
// xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64.
//
// Owner: the code that draws. Thread: one. Memory: 32 bytes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mlxcomm::sim {

inline std::uint64_t Mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) word = seed = Mix(seed);
  }

  std::uint64_t Next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  // 0 .. bound - 1; bound > 0.
  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  std::uint32_t Below32(std::uint32_t bound) { return static_cast<std::uint32_t>(Below(bound)); }
  // Both included.
  std::uint64_t Between(std::uint64_t least, std::uint64_t most) {
    return least + Below(most - least + 1);
  }
  // As likely between 10 and 100 as between 1000 and 10000.
  std::uint64_t BetweenPowers(std::uint64_t least, std::uint64_t most) {
    const auto low = static_cast<std::uint64_t>(std::bit_width(least));
    const auto high = static_cast<std::uint64_t>(std::bit_width(most));
    const std::uint64_t top = std::uint64_t{1} << Between(low, high);
    const std::uint64_t drawn = top / 2 + Below(top / 2 + 1);
    return drawn < least ? least : drawn > most ? most : drawn;
  }
  bool Chance(std::uint64_t of_thousand) { return Below(1000) < of_thousand; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[Below(values.size())];
  }
  template <typename T, std::size_t kCount>
  const T& Of(const std::array<T, kCount>& values) {
    return values[Below(kCount)];
  }
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }
  // A separate stream, so that drawing more for one purpose changes no other.
  Random Fork(std::string_view purpose) {
    std::uint64_t seed = Next();
    for (const char c : purpose) seed = Mix(seed ^ static_cast<unsigned char>(c));
    return Random(seed);
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace mlxcomm::sim

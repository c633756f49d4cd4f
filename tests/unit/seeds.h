// How much a test of code without threads tries. Seeds: all, but an eighth with the thread sanitizer, which
// has nothing to find there and takes ten times as long, and a quarter with tests/run without --all. Values
// of one list, for which the same memory is used in the same way: all, but a fourth with a sanitizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <vector>

#if defined(__has_feature)
#define MLXCOMM_HAS_FEATURE(feature) __has_feature(feature)
#else
#define MLXCOMM_HAS_FEATURE(feature) 0
#endif

namespace mlxcomm {

inline bool IsShortTier() {
  const char* const tier = std::getenv("MLXCOMM_TESTS_TIER");
  return tier != nullptr && std::string_view(tier) == "short";
}

inline std::uint32_t Seeds(std::uint32_t all) {
#if defined(__SANITIZE_THREAD__) || MLXCOMM_HAS_FEATURE(thread_sanitizer)
  return (all + 7) / 8;
#else
  return IsShortTier() ? (all + 3) / 4 : all;
#endif
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    MLXCOMM_HAS_FEATURE(address_sanitizer) || MLXCOMM_HAS_FEATURE(thread_sanitizer)
inline constexpr std::size_t kEachOfValues = 4;
#else
inline constexpr std::size_t kEachOfValues = 1;
#endif

template <typename List>
auto SomeOf(const List& values) {
  std::vector<typename std::iterator_traits<decltype(std::begin(values))>::value_type> some;
  for (std::size_t i = 0; i < std::size(values); i += kEachOfValues) some.push_back(values[i]);
  return some;
}

}  // namespace mlxcomm

// The amount that a test tries. Seeds: the usual number, times MLXCOMM_SEEDS if that is set, but
// half of it with the thread sanitizer, which finds nothing in code without threads and takes ten
// times as long. Values of one list that use the same memory in the same way: all of them, but a
// quarter with a sanitizer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <vector>

#if defined(__has_feature)
#define MLXCOMM_HAS_FEATURE(feature) __has_feature(feature)
#else
#define MLXCOMM_HAS_FEATURE(feature) 0
#endif

namespace mlxcomm {

inline std::uint32_t Seeds(std::uint32_t usual) {
  const char* const times = std::getenv("MLXCOMM_SEEDS");
  const int number = times == nullptr ? 1 : std::max(std::atoi(times), 1);
  usual *= static_cast<std::uint32_t>(number);
#if defined(__SANITIZE_THREAD__) || MLXCOMM_HAS_FEATURE(thread_sanitizer)
  usual = (usual + 1) / 2;
#endif
  return usual;
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

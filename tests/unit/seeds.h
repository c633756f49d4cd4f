// How many seeds a test of code without threads tries: all, but an eighth with the thread
// sanitizer, which has nothing to find there and takes ten times as long, and a quarter with
// tests/run without --all.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

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

}  // namespace mlxcomm

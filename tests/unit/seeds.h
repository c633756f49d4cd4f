// How many seeds a test of code without threads tries: all, but an eighth where the thread
// sanitizer runs, which has nothing to find there and takes ten times as long.
//
// Owner: none. Thread: any. Memory: none.
#pragma once

#include <cstdint>

#if defined(__has_feature)
#define MLXCOMM_HAS_FEATURE(feature) __has_feature(feature)
#else
#define MLXCOMM_HAS_FEATURE(feature) 0
#endif

namespace mlxcomm {

constexpr std::uint32_t Seeds(std::uint32_t all) {
#if defined(__SANITIZE_THREAD__) || MLXCOMM_HAS_FEATURE(thread_sanitizer)
  return (all + 7) / 8;
#else
  return all;
#endif
}

}  // namespace mlxcomm

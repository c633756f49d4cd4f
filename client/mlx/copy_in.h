// Copies an input into the arena. An ordinary copy leaves it in the caches for the daemon; above
// kStreamBytes it would be evicted before the daemon reads it, so the copy bypasses the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mlxcomm::graph {

inline constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

#if defined(__SSE2__)
inline constexpr std::size_t kLineBytes = 64;

// Copies whole cache lines to an aligned address, and returns how many bytes it copied. The
// processor writes a line out once all four parts are stored.
inline std::size_t StreamLines(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t whole = bytes / kLineBytes * kLineBytes;
  for (std::size_t i = 0; i < whole; i += kLineBytes) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + i);
    auto* const place = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(place, a);
    _mm_stream_si128(place + 1, b);
    _mm_stream_si128(place + 2, c);
    _mm_stream_si128(place + 3, d);
  }
  _mm_sfence();  // Completes the stores before another thread is notified.
  return whole;
}
#endif

inline void CopyIn(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t done = 0;
#if defined(__SSE2__)
  const bool begins_a_line = reinterpret_cast<std::uintptr_t>(to) % kLineBytes == 0;
  if (bytes > kStreamBytes && begins_a_line) done = StreamLines(to, from, bytes);
#endif
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace mlxcomm::graph

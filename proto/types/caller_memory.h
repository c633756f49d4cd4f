// Where in its arena a process keeps what an operation reads and writes, as the daemon sees it:
// checked to lie there, each up to the arena's end. The process may write to it at any time, so the
// daemon copies what it examines first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcomm {

struct CallerMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_bytes_available = 0;  // From there to the arena's end.
  std::uint64_t output_bytes_available = 0;
  const std::byte* counts = nullptr;  // Where the kind has a table of counts.
  std::uint64_t counts_bytes_available = 0;
};

}  // namespace mlxcomm

// The memory in a process's arena that an operation reads and writes, checked to lie in the arena.
// The process may change it at any time, so the daemon copies what it checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcomm {

struct CallerMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_bytes_available = 0;  // Counted from `input` to the arena's end.
  std::uint64_t output_bytes_available = 0;
  const std::byte* counts = nullptr;  // Set if the kind has a table of counts.
  std::uint64_t counts_bytes_available = 0;
};

}  // namespace mlxcomm

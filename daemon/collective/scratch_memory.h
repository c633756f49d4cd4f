// An operation's memory besides its ranks' buffers. Rail and worker threads write to it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcomm::collective {

class ScratchMemory {
 public:
  virtual ~ScratchMemory() = default;
  // Returns at least `bytes` (> 0), aligned to a cache line, or nullptr at the limit.
  virtual std::byte* Take(std::uint64_t bytes) = 0;
  virtual void Return(std::byte* memory) = 0;
  virtual std::uint64_t used_bytes() const = 0;
  virtual std::uint64_t limit_bytes() const = 0;
};

}  // namespace mlxcomm::collective

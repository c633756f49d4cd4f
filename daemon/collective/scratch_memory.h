// Memory that an operation needs beside its ranks' buffers: partial results that ranks must not
// see, contributions that wait to be combined in a fixed order.
//
// Owner: the daemon implements it. Thread: the loop's for both calls; rail and worker
// threads write to what is taken. Memory: bounded by the implementation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcomm::collective {

class ScratchMemory {
 public:
  virtual ~ScratchMemory() = default;
  // At least `bytes` (> 0), aligned to a cache line; nullptr: the limit is reached.
  virtual std::byte* Take(std::uint64_t bytes) = 0;
  virtual void Return(std::byte* memory) = 0;
  // For messages: what is in use, and the limit, in bytes.
  virtual std::uint64_t used_bytes() const = 0;
  virtual std::uint64_t limit_bytes() const = 0;
};

}  // namespace mlxcomm::collective

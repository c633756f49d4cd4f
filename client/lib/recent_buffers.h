// The buffers of the last calls that met at once, which have not been freed since. Searching here
// costs less than taking the allocator's mutex twice and searching there.
//
// Owner: Calls. Thread: under its lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "client/lib/arena_allocator.h"

namespace mlxcomm::client {

class RecentBuffers {
 public:
  bool Contain(const ArenaAllocator::Part& part) const {
    return std::ranges::any_of(buffers_, [&](const ArenaAllocator::Part& buffer) {
      const std::uint64_t before = part.offset - buffer.offset;  // Huge if the part begins earlier.
      return before <= buffer.bytes && part.bytes <= buffer.bytes - before;
    });
  }
  void Add(const ArenaAllocator::Pins& pins) {
    for (std::size_t i = 0; i < pins.count(); ++i) {
      if (Contain(pins.range(i))) continue;
      buffers_[next_] = pins.range(i);
      next_ = (next_ + 1) % buffers_.size();
    }
  }
  void Forget(std::uint64_t offset) {
    for (ArenaAllocator::Part& buffer : buffers_) {
      if (buffer.offset == offset) buffer = {};
    }
  }

 private:
  std::array<ArenaAllocator::Part, 4> buffers_{};
  std::size_t next_ = 0;
};

}  // namespace mlxcomm::client

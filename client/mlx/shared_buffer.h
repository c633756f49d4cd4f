// MLX's buffer over memory that it has not allocated, where its allocator accepts all of that.
//
// Metal may decline in two ways: no buffer, and in virtual machines a buffer that is shorter than
// the memory, down to no byte at all. Both count as declined here, because the contents pointer of
// a shorter one is null.
//
// Owner: the caller; release() of the same allocator ends it. Thread: any. Memory: the caller's,
// which outlives the buffer.
#pragma once

#include <cstddef>

#include "mlx/allocator.h"

namespace mlxcomm::graph {

// Its ptr() is null where the allocator declines. Metal wants whole pages, from the first byte of one.
inline mlx::core::allocator::Buffer SharedBuffer(mlx::core::allocator::Allocator& allocator,
                                                 void* data, std::size_t bytes) {
  using mlx::core::allocator::Buffer;
  if (bytes == 0) return Buffer{nullptr};
  const Buffer buffer = allocator.make_buffer(data, bytes);
  if (buffer.ptr() == nullptr || allocator.size(buffer) >= bytes) return buffer;
  allocator.release(buffer);
  return Buffer{nullptr};
}

}  // namespace mlxcomm::graph

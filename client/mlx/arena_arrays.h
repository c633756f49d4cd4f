// Arrays whose memory is in the arena: the daemon writes the result into the array, without a copy.
//
// Owner: the array; its deleter frees the range, which the library keeps until no operation uses
// it. Thread: any. Memory: the arena's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "client/lib/mlxcomm.h"
#include "client/mlx/mlx_releases.h"
#include "client/mlx/process_end.h"
#include "mlx/allocator.h"

namespace mlxcomm::graph {

// A connection that arrays may outlive: the last of them closes it, unless the process has ended.
struct Connected {
  explicit Connected(mlxcomm_connection* opened) : connection(opened) {}
  ~Connected() {
    if (!ProcessHasEnded()) mlxcomm_disconnect(connection);
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  mlxcomm_connection* connection;
};

// MLX's buffer over memory that it has not allocated, where its allocator accepts all of that; its
// release() ends the buffer, which the memory outlives. Metal wants whole pages, from the first byte
// of one.
//
// Metal may decline in two ways: no buffer, and in virtual machines a buffer that is shorter than
// the memory, down to no byte at all. Both count as declined here, and ptr() is null then, because
// the contents pointer of a shorter one is null.
inline mlx::core::allocator::Buffer SharedBuffer(mlx::core::allocator::Allocator& allocator,
                                                 void* data, std::size_t bytes) {
  using mlx::core::allocator::Buffer;
  if (bytes == 0) return Buffer{nullptr};
  const Buffer buffer = allocator.make_buffer(data, bytes);
  if (buffer.ptr() == nullptr || allocator.size(buffer) >= bytes) return buffer;
  allocator.release(buffer);
  return Buffer{nullptr};
}

class ArenaRange {
 public:
  ArenaRange() = default;
  ArenaRange(std::shared_ptr<Connected> owner, void* range)
      : owner_(std::move(owner)), range_(range) {}
  ArenaRange(ArenaRange&& other) noexcept;
  ArenaRange& operator=(ArenaRange&& other) noexcept;
  ~ArenaRange();

  bool is_empty() const { return range_ == nullptr; }
  // Where elements begin; on Linux MLX keeps a buffer's size in front of them.
  std::byte* data() const;
  // MLX's view of the range, which holds the range until the last array has gone. None where MLX
  // does not accept this memory.
  static std::optional<GivenData> AsData(const std::shared_ptr<ArenaRange>& range,
                                         std::uint64_t bytes);

  // Room for `bytes` of elements; throws OperationError when the arena is full.
  static ArenaRange Allocate(const std::shared_ptr<Connected>& owner, std::uint64_t bytes);
  // Empty where there is no room.
  static ArenaRange AllocateIfRoom(const std::shared_ptr<Connected>& owner, std::uint64_t bytes);

 private:
  std::shared_ptr<Connected> owner_;
  void* range_ = nullptr;
};

}  // namespace mlxcomm::graph

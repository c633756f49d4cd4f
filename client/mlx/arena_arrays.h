// Arrays in the arena: the daemon writes the result into the array, without a copy.
//
// Owner: the array; its deleter frees the range, which the library keeps until no operation uses
// it. Thread: any.
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

// A connection shared with the arrays in its arena; the last owner closes it, unless the process
// has ended.
struct Connected {
  explicit Connected(mlxcomm_connection* opened) : connection(opened) {}
  ~Connected() {
    if (!ProcessHasEnded()) mlxcomm_disconnect(connection);
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  mlxcomm_connection* connection;
};

// Wraps memory in an MLX buffer; release() ends the buffer, not the memory. Metal needs whole
// pages. ptr() is null if the allocator declines: Metal returns no buffer, or in virtual machines
// one that is shorter than the memory.
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
  ArenaRange(std::shared_ptr<Connected> owner, void* range) : range_(range, {std::move(owner)}) {}

  bool is_empty() const { return range_ == nullptr; }
  // The elements; on Linux MLX keeps a buffer's size in front of them.
  std::byte* data() const;
  // Wraps the range for MLX; the wrapper owns the range. nullopt if MLX does not accept this
  // memory.
  static std::optional<GivenData> AsData(const std::shared_ptr<ArenaRange>& range,
                                         std::uint64_t bytes);

  // Allocates `bytes` for elements; throws OperationError if the arena is full.
  static ArenaRange Allocate(const std::shared_ptr<Connected>& owner, std::uint64_t bytes);
  // Returns an empty range if the arena is full.
  static ArenaRange AllocateIfRoom(const std::shared_ptr<Connected>& owner, std::uint64_t bytes);

 private:
  struct Frees {
    std::shared_ptr<Connected> owner;
    void operator()(void* range) const { mlxcomm_buffer_free(owner->connection, range); }
  };
  std::unique_ptr<void, Frees> range_;
};

}  // namespace mlxcomm::graph

#include "client/mlx/arena_arrays.h"

#include <unistd.h>

#include "client/mlx/operation_error.h"

namespace mlxcomm::graph {
namespace {

#if defined(__APPLE__)
// Metal wraps whole pages, so the elements begin where the range does.
constexpr std::size_t kHeaderBytes = 0;
#else
// MLX's CPU allocator keeps the buffer's size in the 8 bytes before its data; 64 keep the elements
// SIMD-aligned.
constexpr std::size_t kHeaderBytes = 64;
#endif

}  // namespace

std::byte* ArenaRange::data() const { return static_cast<std::byte*>(range_.get()) + kHeaderBytes; }

ArenaRange ArenaRange::Allocate(const std::shared_ptr<Connected>& owner, std::uint64_t bytes) {
  mlxcomm_error error;
  void* range = nullptr;
  CheckOperation(mlxcomm_buffer_allocate(owner->connection, bytes + kHeaderBytes, &range, &error),
                 error, nullptr);
  return ArenaRange(owner, range);
}

ArenaRange ArenaRange::AllocateIfRoom(const std::shared_ptr<Connected>& owner,
                                      std::uint64_t bytes) {
  void* range = nullptr;
  const mlxcomm_code code =
      mlxcomm_buffer_allocate(owner->connection, bytes + kHeaderBytes, &range, nullptr);
  return code == MLXCOMM_OK ? ArenaRange(owner, range) : ArenaRange();
}

std::optional<GivenData> ArenaRange::AsData(const std::shared_ptr<ArenaRange>& range,
                                            std::uint64_t bytes) {
  namespace allocator = mlx::core::allocator;
#if defined(__APPLE__)
  const auto page = static_cast<std::uint64_t>(::getpagesize());
  const std::uint64_t whole = (bytes + page - 1) / page * page;
  const allocator::Buffer buffer = SharedBuffer(allocator::allocator(), range->range_.get(), whole);
  if (buffer.ptr() == nullptr) return std::nullopt;
  return GivenData{buffer, [range](allocator::Buffer held) { allocator::release(held); }};
#else
  auto* const size = reinterpret_cast<std::size_t*>(range->data()) - 1;
  *size = bytes;
  return GivenData{allocator::Buffer(size), [range](allocator::Buffer) {}};
#endif
}

}  // namespace mlxcomm::graph

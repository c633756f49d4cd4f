// When MLX counts as having accepted the memory.
#include "client/mlx/arena_arrays.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace mlxcomm::graph::shared_buffer_test {
namespace {

using mlx::core::allocator::Allocator;
using mlx::core::allocator::Buffer;

// Declines like Metal: with no buffer, or with one of another length.
class DecliningAllocator final : public Allocator {
 public:
  Buffer malloc(std::size_t) override { return Buffer{nullptr}; }
  void free(Buffer) override {}
  std::size_t size(Buffer) const override { return length; }
  Buffer make_buffer(void*, std::size_t) override {
    ++made;
    return Buffer{gives_one ? &object : nullptr};
  }
  void release(Buffer buffer) override {
    EXPECT_EQ(buffer.ptr(), &object);
    ++released;
  }
  int object = 0;
  bool gives_one = true;
  std::size_t length = 0;
  int made = 0;
  int released = 0;
};

TEST(SharedBufferTest, IsTheAllocatorsBufferIfItCoversAll) {
  DecliningAllocator allocator;
  allocator.length = 4096;
  std::byte data[16];
  EXPECT_EQ(SharedBuffer(allocator, data, 4096).ptr(), &allocator.object);
  EXPECT_EQ(allocator.released, 0);
}

TEST(SharedBufferTest, IsNullIfTheAllocatorReturnsNone) {
  DecliningAllocator allocator;
  allocator.gives_one = false;
  std::byte data[16];
  EXPECT_EQ(SharedBuffer(allocator, data, 4096).ptr(), nullptr);
  EXPECT_EQ(allocator.released, 0);
}

// Why: in virtual machines Metal returns a buffer of no bytes, whose contents pointer is null.
TEST(SharedBufferTest, IsNullIfTheBufferIsShorterThanTheMemory) {
  DecliningAllocator allocator;
  std::byte data[16];
  for (const std::size_t length : {std::size_t{0}, std::size_t{4095}}) {
    allocator.length = length;
    allocator.released = 0;
    EXPECT_EQ(SharedBuffer(allocator, data, 4096).ptr(), nullptr) << length;
    EXPECT_EQ(allocator.released, 1) << "it is counted as memory in use for ever";
  }
}

TEST(SharedBufferTest, IsNullForNoBytes) {
  DecliningAllocator allocator;
  std::byte data[16];
  EXPECT_EQ(SharedBuffer(allocator, data, 0).ptr(), nullptr);
  EXPECT_EQ(allocator.made, 0);
}

}  // namespace
}  // namespace mlxcomm::graph::shared_buffer_test

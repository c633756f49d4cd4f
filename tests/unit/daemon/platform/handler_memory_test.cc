// A freed handler's memory is reused for the next one.
#include "daemon/platform/handler_memory.h"

#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace mlxcomm::platform::handler_memory_test {
namespace {

TEST(HandlerMemoryTest, ReusesFreedBlocks) {
  void* const first = HandlerMemory::Allocate(100);
  HandlerMemory::Free(first, 100);
  void* const second = HandlerMemory::Allocate(HandlerMemory::kBlockBytes);
  EXPECT_EQ(second, first) << "whatever its length";
  HandlerMemory::Free(second, HandlerMemory::kBlockBytes);
}

TEST(HandlerMemoryTest, KeepsNeitherTooManyNorTooLongBlocks) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 2 * HandlerMemory::kBlocksKept; ++i) {
    blocks.push_back(HandlerMemory::Allocate(8));
  }
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
  for (void* const block : blocks) HandlerMemory::Free(block, 8);
  void* const big = HandlerMemory::Allocate(HandlerMemory::kBlockBytes + 1);
  HandlerMemory::Free(big, HandlerMemory::kBlockBytes + 1);
  void* const next = HandlerMemory::Allocate(8);
  EXPECT_NE(next, big);
  HandlerMemory::Free(next, 8);
}

// Why: when a daemon stops, the stopping thread drops the waiting handlers.
TEST(HandlerMemoryTest, MayBeFreedByAnotherThread) {
  void* block = nullptr;
  std::thread([&] { block = HandlerMemory::Allocate(8); }).join();
  HandlerMemory::Free(block, 8);
  std::thread([] { HandlerMemory::Free(HandlerMemory::Allocate(8), 8); }).join();
}

}  // namespace
}  // namespace mlxcomm::platform::handler_memory_test

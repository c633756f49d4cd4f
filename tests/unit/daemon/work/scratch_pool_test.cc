// The daemon's own memory: limited, warm when used again, and returned to the system if it is too
// much or unused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/work/scratch_pool.h"

namespace mlxcomm::scratch_pool_test {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

TEST(ScratchPoolTest, TakesReturnedMemoryAgain) {
  ScratchPool pool(64 * kMiB);
  std::byte* const first = pool.Take(3 * kMiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(pool.used_bytes(), 4 * kMiB);  // Rounded up.
  first[3 * kMiB - 1] = std::byte{1};
  pool.Return(first);
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.Take(4 * kMiB), first);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  pool.Return(first);
}

TEST(ScratchPoolTest, RefusesBeyondItsLimit) {
  ScratchPool pool(8 * kMiB);
  EXPECT_EQ(pool.Take(9 * kMiB), nullptr);
  std::byte* const most = pool.Take(8 * kMiB);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(pool.Take(1), nullptr);
  pool.Return(most);
  std::byte* const little = pool.Take(1);
  EXPECT_NE(little, nullptr);
  pool.Return(little);
}

// Why: sizes come from ranks' requests.
TEST(ScratchPoolTest, RefusesSizesThatNoMachineHas) {
  ScratchPool pool(~std::uint64_t{0});
  EXPECT_EQ(pool.Take(~std::uint64_t{0}), nullptr);
  EXPECT_EQ(pool.Take((std::uint64_t{1} << 46) + 1), nullptr);
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST(ScratchPoolTest, KeepsALimitedAmount) {
  ScratchPool pool(4 * ScratchPool::kKeptBytes);
  std::vector<std::byte*> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(pool.Take(ScratchPool::kKeptBytes / 2));
  for (std::byte* const memory : taken) pool.Return(memory);
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.kept_bytes(), ScratchPool::kKeptBytes);
}

// Why: the maximum that a daemon ever needed would be kept for the rest of its life.
TEST(ScratchPoolTest, FreesWhatItKeepsAndNothingElse) {
  ScratchPool pool(256 * kMiB);
  std::byte* const used = pool.Take(kMiB);
  for (std::byte* const memory : {pool.Take(kMiB), pool.Take(32 * kMiB)}) pool.Return(memory);
  EXPECT_EQ(pool.kept_bytes(), 33 * kMiB);
  pool.FreeKept();
  EXPECT_EQ(pool.kept_bytes(), 0u);
  EXPECT_EQ(pool.used_bytes(), kMiB) << "what is taken stays";
  used[kMiB - 1] = std::byte{1};
  pool.Return(used);
}

}  // namespace
}  // namespace mlxcomm::scratch_pool_test

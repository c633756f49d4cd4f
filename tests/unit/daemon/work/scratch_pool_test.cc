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

// Time for a pool, whose OnTime is called when due.
class Clock {
 public:
  explicit Clock(ScratchPool& pool) : pool_(pool) {}
  void Pass(std::uint64_t ns) {
    const std::uint64_t end = now_ns_ + ns;
    while (pool_.NextDeadline() < end) {
      now_ns_ = std::max(now_ns_, pool_.NextDeadline());
      pool_.OnTime(now_ns_);
      ASSERT_GT(pool_.NextDeadline(), now_ns_);
    }
    now_ns_ = end;
  }

 private:
  ScratchPool& pool_;
  std::uint64_t now_ns_ = 1;
};

void TakeAndReturn(ScratchPool& pool, const std::vector<std::uint64_t>& sizes) {
  std::vector<std::byte*> taken;
  for (const std::uint64_t bytes : sizes) taken.push_back(pool.Take(bytes));
  for (std::byte* const memory : taken) pool.Return(memory);
}

// Why: the maximum that a daemon ever needed would be kept for the rest of its life.
TEST(ScratchPoolTest, FreesMemoryThatIsNoLongerUsed) {
  ScratchPool pool(256 * kMiB);
  Clock clock(pool);
  TakeAndReturn(pool, {kMiB, 32 * kMiB, 32 * kMiB});
  EXPECT_EQ(pool.NextDeadline(), 0u);
  clock.Pass(ScratchPool::kUnusedNs / 2);
  EXPECT_EQ(pool.kept_bytes(), 65 * kMiB);
  clock.Pass(3 * ScratchPool::kUnusedNs);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  EXPECT_EQ(pool.NextDeadline(), ScratchPool::kNever) << "nothing is left to wake for";
}

TEST(ScratchPoolTest, KeepsMemoryThatIsUsedRepeatedly) {
  ScratchPool pool(256 * kMiB);
  Clock clock(pool);
  TakeAndReturn(pool, {kMiB, kMiB, kMiB, 2 * kMiB});
  std::byte* const warm = pool.Take(kMiB);
  pool.Return(warm);
  for (int i = 0; i < 8; ++i) {
    clock.Pass(ScratchPool::kUnusedNs / 2);
    ASSERT_EQ(pool.Take(kMiB), warm);
    pool.Return(warm);
  }
  EXPECT_EQ(pool.kept_bytes(), kMiB) << "the others of its size, and the larger one, have gone";
}

// Why: freeing much takes milliseconds, in which the loop moves no payload.
TEST(ScratchPoolTest, FreesASliceAtATimeIfNoMoreIsExpected) {
  ScratchPool pool(256 * kMiB);
  TakeAndReturn(pool, {16 * ScratchPool::kSliceBytes, kMiB});
  std::byte* const used = pool.Take(kMiB / 2);
  std::uint64_t kept = pool.kept_bytes();
  std::uint64_t now_ns = 1;
  for (pool.ExpectNoMore(); kept > 0; now_ns += ScratchPool::kSliceEveryNs) {
    pool.OnTime(now_ns);
    pool.OnTime(now_ns + 1);
    ASSERT_LE(kept - pool.kept_bytes(), ScratchPool::kSliceBytes);
    ASSERT_LT(pool.kept_bytes(), kept);
    kept = pool.kept_bytes();
  }
  used[0] = std::byte{1};  // It stays.
  pool.Return(used);
}

}  // namespace
}  // namespace mlxcomm::scratch_pool_test

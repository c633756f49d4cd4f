// Why: nodes that divide an operation differently wait for each other forever, and too few slices
// for a cable's length leave it idle.
#include "daemon/collective/plans/slices.h"

#include <gtest/gtest.h>

namespace mlxcomm::collective::slices_test {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

Slices OfFloats(int nodes, std::uint64_t bytes) {
  return SlicesOfRing(nodes, bytes / sizeof(float), sizeof(float));
}

TEST(SlicesTest, ShortOperationsAreDoneInOne) {
  EXPECT_EQ(OfFloats(2, 0).count, 1u);
  EXPECT_EQ(OfFloats(2, 4).count, 1u);
  EXPECT_EQ(OfFloats(2, 4 * kMiB).count, 1u);
  EXPECT_EQ(OfFloats(4, kMiB).count, 1u);
}

// A short chunk costs as much as a long one, and data travels in chunks of 256 KiB.
TEST(SlicesTest, BlocksOfRoundOperationsAreWholeChunks) {
  for (const int nodes : {2, 4, 8}) {
    for (const std::uint64_t mebibytes : {16u, 64u, 128u, 512u}) {
      EXPECT_EQ(OfFloats(nodes, mebibytes * kMiB).block_bytes % kChunkBytes, 0u)
          << nodes << " nodes, " << mebibytes << " MiB";
    }
  }
  EXPECT_EQ(OfFloats(2, 16 * kMiB).count, 8u);
  EXPECT_EQ(OfFloats(4, 16 * kMiB).count, 8u);
}

TEST(SlicesTest, CoverAllElementsOnce) {
  const std::uint64_t elements = 9 * kMiB + 5;
  const Slices slices = SlicesOfRing(3, elements, 1);
  ASSERT_GT(slices.count, 2u);
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < slices.count; ++i) {
    EXPECT_EQ(slices.At(elements, i).offset, next);
    next += slices.At(elements, i).count;
  }
  EXPECT_EQ(next, elements);
}

// A proof uses less data, and needs as many slices as the whole.
TEST(SlicesTest, AreAsManyAsForTheChosenCount) {
  const Slices all = OfFloats(4, 64 * kMiB);
  const Slices less = SlicesOfRing(4, kMiB, sizeof(float), 64 * kMiB / sizeof(float));
  EXPECT_EQ(less.count, all.count);
  EXPECT_LT(less.block_bytes, all.block_bytes);
}

// Tags have 16 bits, and a plan's memory is bounded.
TEST(SlicesTest, StayFewInLargeGroupsAndOperations) {
  for (const int nodes : {2, 3, 16, 64, 1024}) {
    const Slices slices = OfFloats(nodes, 64 * 1024 * kMiB);
    const std::uint64_t turns = 2 * static_cast<std::uint64_t>(nodes - 1);
    EXPECT_LE(slices.count * turns, 4096u) << nodes;
    EXPECT_GE(slices.count, 1u);
  }
}

// The slices under way must last until more can arrive, or the cable is idle: longer with a high
// latency, and in place, where the second pass waits for an acknowledgement.
TEST(SlicesTest, MoreAreUnderWayWithAHighLatency) {
  const Slices slices = OfFloats(4, 64 * kMiB);
  const auto under_way = [&](std::uint64_t latency_ns, std::uint64_t bytes_per_second) {
    return slices.Window({latency_ns, bytes_per_second, 2}, /*in_place=*/false);
  };
  EXPECT_EQ(under_way(10'000, 1'250'000'000), 2u);
  EXPECT_EQ(under_way(10'000, 10'000'000'000), 2u);
  EXPECT_EQ(under_way(60'000, 10'000'000'000), 6u);
  EXPECT_GT(under_way(1'000'000, 1'250'000'000), 10u);
  EXPECT_EQ(slices.Window({10'000, 10'000'000'000, 2}, /*in_place=*/true), 5u);
  // With any figures there is a limit; and no more than there are.
  EXPECT_EQ(under_way(UINT64_MAX, UINT64_MAX), 24u);
  EXPECT_EQ(OfFloats(2, 4).Window({UINT64_MAX, UINT64_MAX, 2}, false), 1u);
}

}  // namespace
}  // namespace mlxcomm::collective::slices_test

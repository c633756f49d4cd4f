#include "daemon/link/received_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace mlxcomm::link::received_ranges_test {
namespace {

TEST(ReceivedRangesTest, CountsBytesInOrder) {
  ReceivedRanges ranges;
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(ranges.Add(i * 10, 10));
  EXPECT_EQ(ranges.bytes(), 10'000u);
}

TEST(ReceivedRangesTest, RefusesBytesThatHaveArrived) {
  ReceivedRanges ranges;
  ASSERT_TRUE(ranges.Add(100, 50));
  EXPECT_FALSE(ranges.Add(100, 50));
  EXPECT_FALSE(ranges.Add(149, 1));
  EXPECT_FALSE(ranges.Add(99, 2));
  EXPECT_FALSE(ranges.Add(0, 1000));
  EXPECT_FALSE(ranges.Add(120, 5));
  EXPECT_EQ(ranges.bytes(), 50u);
  EXPECT_TRUE(ranges.Add(99, 1));
  EXPECT_TRUE(ranges.Add(150, 1));
  EXPECT_EQ(ranges.bytes(), 52u);
}

TEST(ReceivedRangesTest, RefusesMoreGapsThanItKeepsAndContinuesWhenOneCloses) {
  ReceivedRanges ranges;
  for (std::uint64_t i = 0; i < ReceivedRanges::kRangesMax; ++i) {
    ASSERT_TRUE(ranges.Add(i * 20, 10));
  }
  EXPECT_FALSE(ranges.Add(100'000, 10));
  ASSERT_TRUE(ranges.Add(10, 10));
  EXPECT_TRUE(ranges.Add(100'000, 10));
}

// Why: a byte that is accepted twice is summed twice.
// How: random chunks, compared with a map of single bytes.
TEST(ReceivedRangesTest, AgreesWithAMapOfBytes) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    ReceivedRanges ranges;
    std::vector<bool> map(64, false);
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t offset = random() % map.size();
      const std::uint64_t bytes = 1 + random() % (map.size() - offset);
      bool overlaps = false;
      for (std::uint64_t k = 0; k < bytes; ++k) overlaps = overlaps || map[offset + k];
      const bool added = ranges.Add(offset, bytes);
      ASSERT_FALSE(added && overlaps) << "seed " << seed;
      if (!added) continue;
      for (std::uint64_t k = 0; k < bytes; ++k) map[offset + k] = true;
      std::uint64_t count = 0;
      for (const bool has : map) count += has ? 1 : 0;
      ASSERT_EQ(ranges.bytes(), count) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace mlxcomm::link::received_ranges_test

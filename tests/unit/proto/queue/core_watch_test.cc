// When a waiting thread gives its core up, with the test's own clock.
#include "proto/queue/core_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace mlxcomm::queue::core_watch_test {
namespace {

constexpr std::uint64_t kBegin = 1'000'000;

// Polls every microsecond, until the watch gives up or for that long. Returns the time then.
std::uint64_t PollFor(CoreWatch& watch, std::uint64_t now_ns, std::uint64_t duration_ns) {
  const std::uint64_t end_ns = now_ns + duration_ns;
  while (now_ns < end_ns && watch.Keeps(now_ns)) now_ns += 1'000;
  return now_ns;
}

TEST(CoreWatchTest, KeepsACoreThatNoOtherThreadTakes) {
  CoreWatch watch(kBegin);
  EXPECT_EQ(PollFor(watch, kBegin, 100'000'000), kBegin + 100'000'000);
}

// Why: the thread that ran in the gap may have done what this one waits for.
TEST(CoreWatchTest, PollsOnForAWhileAfterAGapAndThenGivesUp) {
  CoreWatch watch(kBegin);
  const std::uint64_t before = PollFor(watch, kBegin, 50'000);
  const std::uint64_t after = before + 3'000'000;
  EXPECT_EQ(PollFor(watch, after, 100'000'000), after + CoreWatch::kAfterGapNs);
}

// Why: two gaps after each other must not prolong the wait.
TEST(CoreWatchTest, ALaterGapGivesNoMoreTime) {
  CoreWatch watch(kBegin);
  const std::uint64_t after = kBegin + 3'000'000;
  ASSERT_TRUE(watch.Keeps(after));
  EXPECT_FALSE(watch.Keeps(after + 3'000'000));
}

TEST(CoreWatchTest, ReportsTheLongestGap) {
  CoreWatch watch(kBegin);
  std::uint64_t now_ns = PollFor(watch, kBegin, 50'000) + 200'000;
  watch.Keeps(now_ns);
  watch.Keeps(now_ns += 30'000);
  EXPECT_GE(watch.longest_gap_ns(), 200'000u);
  EXPECT_LT(watch.longest_gap_ns(), 210'000u);
}

constexpr std::uint64_t kShort = KeepsCore::kLongGapNs - 1;
constexpr std::uint64_t kLong = KeepsCore::kLongGapNs;

// How many waits yield until one may keep its core again.
std::uint32_t YieldsUntilNextTrial(KeepsCore& keeps) {
  std::uint32_t yields = 0;
  while (!keeps.Next()) ++yields;
  return yields + 1;
}

TEST(KeepsCoreTest, KeepsItThroughShortGaps) {
  KeepsCore keeps;
  for (int wait = 0; wait < 1000; ++wait) {
    ASSERT_TRUE(keeps.Next());
    keeps.Learn(kShort);
  }
}

// Why: where two jobs share the cores, each wait that kept its core cost the other job a slice, and
// a token took 70 ms instead of 4.
TEST(KeepsCoreTest, YieldsAfterALongGapAndForTwiceAsManyWaitsAfterTheNext) {
  KeepsCore keeps;
  std::uint32_t expected = KeepsCore::kYieldLeast;
  for (int trial = 0; trial < 20; ++trial) {
    keeps.Learn(kLong);
    EXPECT_EQ(YieldsUntilNextTrial(keeps), expected) << trial;
    expected = std::min(2 * expected, KeepsCore::kYieldMost);
  }
}

TEST(KeepsCoreTest, ForgetsEarlierGapsOnceItsCoreIsItsOwn) {
  KeepsCore keeps;
  for (int trial = 0; trial < 5; ++trial) {
    keeps.Learn(kLong);
    YieldsUntilNextTrial(keeps);
  }
  for (std::uint32_t wait = 0; wait < KeepsCore::kYieldLeast; ++wait) keeps.Learn(0);
  keeps.Learn(kLong);
  EXPECT_EQ(YieldsUntilNextTrial(keeps), KeepsCore::kYieldLeast);
}

}  // namespace
}  // namespace mlxcomm::queue::core_watch_test

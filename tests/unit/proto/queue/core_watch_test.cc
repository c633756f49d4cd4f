// When a waiting thread gives its core up, with the test's own clock.
#include "proto/queue/core_watch.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mlxcomm::queue::core_watch_test

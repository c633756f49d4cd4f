// Spinning and sleeping, with the test's own clock.
#include "proto/queue/adaptive_spin.h"

#include <gtest/gtest.h>

namespace mlxcomm::queue::adaptive_spin_test {
namespace {

constexpr SpinLimits kLimits{1'000, 10'000, false};

// Simulates a wait of this length with a poll at each step. Returns how long it spun.
std::uint64_t WaitFor(AdaptiveSpin& spin, std::uint64_t wait_ns, std::uint64_t& now_ns) {
  constexpr std::uint64_t kStepNs = 100;
  const std::uint64_t begin = now_ns;
  std::uint64_t looked = 0;
  bool looks = true;
  for (; now_ns < begin + wait_ns; now_ns += kStepNs) {
    looks = looks && spin.LookAgain(now_ns);
    if (looks) looked = now_ns + kStepNs - begin;
  }
  spin.Found(now_ns);
  return looked;
}

TEST(AdaptiveSpinTest, PollsWhileAnswersAreFast) {
  AdaptiveSpin spin(kLimits);
  std::uint64_t now = 1'000'000;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(WaitFor(spin, 9'000, now), 9'000u) << i;
  EXPECT_LE(WaitFor(spin, 1'000'000, now), kLimits.most_ns) << "never longer than its limit";
}

// Why: useless spinning takes a core from a computing thread.
TEST(AdaptiveSpinTest, SleepsEarlyIfAnswersAreSlowAndPollsAgainIfTheyAreFast) {
  AdaptiveSpin spin(kLimits);
  std::uint64_t now = 1'000'000;
  for (int i = 0; i < 20; ++i) WaitFor(spin, 1'000'000, now);
  EXPECT_LE(WaitFor(spin, 1'000'000, now), kLimits.least_ns);
  for (int i = 0; i < 5; ++i) WaitFor(spin, 2'000, now);
  EXPECT_EQ(WaitFor(spin, 2'000, now), 2'000u);
}

// Why: for example a barrier before each long computation: every other answer comes soon, and
// spinning for it must not cost much more than it takes.
TEST(AdaptiveSpinTest, LooksNotMuchLongerThanShortWaitsTake) {
  AdaptiveSpin spin(kLimits);
  std::uint64_t now = 1'000'000;
  for (int i = 0; i < 50; ++i) {
    WaitFor(spin, 1'000'000, now);
    WaitFor(spin, 600, now);
  }
  EXPECT_LE(WaitFor(spin, 1'000'000, now), 5'000u);
  EXPECT_EQ(WaitFor(spin, 600, now), 600u);
}

// Why: a worker that was woken when others had taken all went to sleep at once, and so had to be
// woken for each work, which took the loop longer than the work.
TEST(AdaptiveSpinTest, LooksForWhatOthersTookAsForItsOwn) {
  AdaptiveSpin spin(kLimits);
  std::uint64_t now = 1'000'000;
  std::uint64_t arrived = 0;
  EXPECT_FALSE(spin.Saw(arrived, now)) << "nothing has come yet";
  while (spin.LookAgain(now)) now += 100;
  EXPECT_TRUE(spin.Saw(++arrived, now += 50'000)) << "it slept, and was woken too late";
  EXPECT_FALSE(spin.Saw(arrived, now)) << "seen already";
  for (int i = 0; i < 100; ++i) {
    for (int look = 0; look < 50; ++look) ASSERT_TRUE(spin.LookAgain(now += 100)) << i;
    EXPECT_TRUE(spin.Saw(++arrived, now));
  }
}

// Why: a waiter that yields its core and gets it back late competes with a thread that computes.
TEST(AdaptiveSpinTest, SleepsWhereItDoesNotGetItsCoreBack) {
  AdaptiveSpin spin(kLimits);
  std::uint64_t now = 1'000'000;
  for (int i = 0; i < 20; ++i) {
    spin.LookAgain(now);
    EXPECT_FALSE(spin.LookAgain(now += 3'000'000));
    spin.Found(now += 100);
  }
  EXPECT_EQ(spin.budget_ns(), kLimits.least_ns);
}

}  // namespace
}  // namespace mlxcomm::queue::adaptive_spin_test

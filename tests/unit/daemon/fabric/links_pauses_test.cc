// Two nodes' Links and a process that does not run for a while, because it is stopped or its
// machine sleeps: the clock jumps, and everything that became due in the meantime is due at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/unit/daemon/fabric/paper_rails.h"
#include "tests/unit/daemon/link/status_of.h"

namespace mlxcomm::fabric::links_pauses_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class LinksPausesTest : public testing::Test {
 protected:
  std::shared_ptr<Connection> Connect(const std::string& cable) {
    return Join(here, there, {cable, cable}, now_ns);
  }
  bool HasRail(const std::string& cable) {
    return here.links->HasRailOver(there.id(), {cable, cable});
  }
  v1::LinkState::Value State() { return link::StatusOfLinks(*here.links).at(0).state(); }
  // From deadline to deadline, like a running process.
  void RunHere(std::uint64_t ns) {
    for (const std::uint64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      now_ns = std::clamp(here.links->deadline_ns(), now_ns, end_ns);
      here.links->OnTime(now_ns);
      here.links->Poll(now_ns);
    }
  }
  void SleepHere(std::uint64_t ns) {
    now_ns += ns;
    here.links->OnTime(now_ns);
    here.links->Poll(now_ns);
  }

  Daemon here{0};
  Daemon there{1};
  const std::uint64_t interval_ns = here.options.heartbeat_interval_ns;
  const std::uint64_t grace_ns = here.options.grace_period_ns;
  std::uint64_t now_ns = 1;
};

// Why: daemons of one machine, or of two that slept at the same time, have received nothing from
// each other although both are alive.
TEST_F(LinksPausesTest, GiveARailTimeToAnswerAfterALongPause) {
  const std::shared_ptr<Connection> answers = Connect("1");
  const std::shared_ptr<Connection> silent = Connect("2");
  RunHere(10 * interval_ns);
  answers->answers = silent->answers = false;  // The other side sleeps as well.
  SleepHere(100 * here.options.heartbeat_timeout_ns);
  EXPECT_TRUE(HasRail("1") && HasRail("2"));
  answers->answers = true;
  there.links->OnTime(now_ns);
  RunHere(interval_ns);
  EXPECT_TRUE(HasRail("1")) << "it has answered";
  EXPECT_FALSE(HasRail("2")) << "it had time to";
  EXPECT_EQ(State(), v1::LinkState::up);
}

// Why: a machine that sleeps often must not consider a lost peer alive.
TEST_F(LinksPausesTest, DetectSilenceInSpiteOfPauses) {
  Connect("1")->answers = false;
  int pauses = 0;
  for (; HasRail("1") && pauses < 10; ++pauses) {
    SleepHere(4 * interval_ns);
    RunHere(interval_ns);
  }
  EXPECT_LE(pauses, 2);
}

// Why: on a machine so busy that all ticks are late, each tick looks like the end of a pause, and a
// lost peer must be detected before its own timeout for us ends.
TEST_F(LinksPausesTest, DetectSilenceAndEndAGraceWhenAllTicksAreLate) {
  const std::uint64_t late_ns = interval_ns + 1;
  const std::shared_ptr<Connection> silent = Connect("1");
  const std::shared_ptr<Connection> answers = Connect("2");
  silent->answers = false;
  while (HasRail("1") && now_ns < 10 * grace_ns) SleepHere(interval_ns + late_ns);
  EXPECT_LE(now_ns, 2 * here.options.heartbeat_timeout_ns + 2 * interval_ns);
  ASSERT_TRUE(HasRail("2")) << "it has answered each time";

  answers->answers = false;
  const std::uint64_t began_ns = now_ns;
  while (here.lost.empty() && now_ns < began_ns + 10 * grace_ns) SleepHere(interval_ns + late_ns);
  ASSERT_EQ(here.lost.size(), 1u);
  EXPECT_THAT(here.lost[0], HasSubstr("no connection to it for 5000 ms"));
}

// Why: no peer could return to a daemon that did not run.
// How: it is paused for longer than its grace period, in the middle of one.
TEST_F(LinksPausesTest, LoseNoNodeForAGracePeriodThatPassedDuringAPause) {
  Connect("1")->ends[0]->GoDown(rail::DownCause::kCut);
  RunHere(grace_ns / 2);
  ASSERT_EQ(State(), v1::LinkState::grace);
  SleepHere(2 * grace_ns);
  EXPECT_EQ(State(), v1::LinkState::grace);
  RunHere(grace_ns / 2 - 3 * interval_ns);
  EXPECT_THAT(here.lost, IsEmpty());
  RunHere(3 * interval_ns);
  ASSERT_EQ(here.lost.size(), 1u);
  EXPECT_THAT(here.lost[0], HasSubstr("no connection to it for 5000 ms"));
}

// Why: a system needs a second to find its neighbours again, so a cable that was back in time came
// too late.
// How: the interface comes up at the end of the grace period, again and again.
TEST_F(LinksPausesTest, GiveARestoredInterfaceLimitedTimeToBeDialed) {
  const std::uint64_t timeout_ns = here.options.heartbeat_timeout_ns;
  Connect("1")->ends[0]->GoDown(rail::DownCause::kCut);
  RunHere(grace_ns - interval_ns / 2);
  here.links->OnInterfaceUp(now_ns);
  RunHere(timeout_ns - interval_ns);
  EXPECT_THAT(here.lost, IsEmpty());
  for (int i = 0; i < 8; ++i) {
    here.links->OnInterfaceUp(now_ns);
    RunHere(interval_ns / 4);
  }
  ASSERT_EQ(here.lost.size(), 1u);
}

// Why: a daemon that stopped is given a fifth of a second to restart.
TEST_F(LinksPausesTest, GiveTheOtherDaemonAtLeastAHeartbeatIntervalToReturn) {
  for (PaperRail* const end : Connect("1")->ends) end->GoDown(rail::DownCause::kReset);
  there.links->Poll(now_ns);
  RunHere(1);
  ASSERT_EQ(State(), v1::LinkState::grace);
  SleepHere(grace_ns);
  EXPECT_EQ(State(), v1::LinkState::grace);
  Connect("1");
  EXPECT_EQ(State(), v1::LinkState::up);
  EXPECT_THAT(here.lost, IsEmpty());
}

}  // namespace
}  // namespace mlxcomm::fabric::links_pauses_test

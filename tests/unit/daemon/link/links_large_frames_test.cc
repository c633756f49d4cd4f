// Ways on which an MTU has become too small: connections can be made, and the first large frame blocks each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/unit/daemon/link/paper_rails.h"

namespace mlxcomm::fabric::links_large_frames_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class LinksLargeFramesTest : public testing::Test {
 protected:
  std::shared_ptr<Connection> Connect(bool small_only) {
    return Join(here, there, {"1", "1"}, now_ns, small_only);
  }
  void Cut(Connection& connection) {
    for (PaperRail* const end : connection.ends) end->GoDown(DownCause::kCut);
    here.links->Poll(now_ns);
    there.links->Poll(now_ns);
  }
  LinkSnapshot Told() { return here.links->Snapshot().at(0); }
  bool HasRail() { return here.links->HasRailOver(there.id(), {"1", "1"}); }
  void Run(std::uint64_t ns) {
    for (const std::uint64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      now_ns = std::clamp(std::min(here.links->deadline_ns(), there.links->deadline_ns()), now_ns,
                          end_ns);
      for (Daemon* const daemon : {&here, &there}) {
        daemon->links->OnTime(now_ns);
        daemon->links->Poll(now_ns);
      }
    }
  }

  Daemon here{0};
  Daemon there{1};
  const std::uint64_t grace_ns = here.options.grace_period_ns;
  std::uint64_t now_ns = 1;
};

// Why: each connection looked like the cable's return, so a grace never ended, and jobs waited for their own
// deadline with a link that was up.
// How: each connection is blocked by its first large frame, and dialed again when it has been silent.
TEST_F(LinksLargeFramesTest, EndAGraceThatConnectionsDoNot) {
  Cut(*Connect(false));
  const std::uint64_t began_ns = now_ns;
  int connections = 0;
  while (here.lost.empty() && now_ns < began_ns + 10 * grace_ns) {
    if (!HasRail()) {
      Connect(/*small_only=*/true);
      ++connections;
    }
    EXPECT_EQ(Told().state, LinkState::kGrace);
    EXPECT_THAT(Told().detail, HasSubstr("no large frame has passed on it yet"));
    Run(here.options.heartbeat_interval_ns / 2);
  }
  EXPECT_EQ(connections, 2);
  EXPECT_LE(now_ns - began_ns, grace_ns + here.options.heartbeat_interval_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_THAT(here.lost[0], HasSubstr("small frames pass to it and large ones do not, for 5"));
  EXPECT_THAT(here.lost[0], HasSubstr("MTU"));
  EXPECT_EQ(Told().reason, LinkReason::kLargeLost);
  EXPECT_TRUE(Told().large_lost);

  Connect(/*small_only=*/true);  // As new, for nobody waits for it.
  EXPECT_TRUE(Told().large_lost) << "and status still says so";
  Run(2 * grace_ns);
  Connect(/*small_only=*/false);
  here.links->Poll(now_ns);
  EXPECT_EQ(Told().state, LinkState::kUp);
  EXPECT_FALSE(Told().large_lost);
}

// Why: the answer to a large frame takes longer than a connection does, and a cable that is back just in time
// must not be lost for that.
TEST_F(LinksLargeFramesTest, HaveTimeToPassOnAConnectionThatComesLate) {
  Cut(*Connect(false));
  Run(grace_ns - 2);
  const std::shared_ptr<Connection> late = Connect(/*small_only=*/true);
  late->cut = false;  // It has not blocked: the answer is under way.
  Run(here.options.heartbeat_timeout_ns / 4);
  EXPECT_EQ(Told().state, LinkState::kGrace);
  for (PaperRail* const end : late->ends) end->PassLarge();
  Run(grace_ns);
  EXPECT_EQ(Told().state, LinkState::kUp);
  EXPECT_THAT(here.lost, IsEmpty());
  EXPECT_THAT(there.lost, IsEmpty());
}

// Why: the reason must not depend on how often a connection could be made before the grace ended.
TEST_F(LinksLargeFramesTest, AreTheReasonThoughTheOnlyConnectionCameLate) {
  Cut(*Connect(false));
  Run(grace_ns - 2);
  Connect(/*small_only=*/true);
  Run(here.options.heartbeat_timeout_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_EQ(Told().reason, LinkReason::kLargeLost);
}

// Why: the MTU is no suspect where only a cable was pulled, whichever moment that was.
TEST_F(LinksLargeFramesTest, AreNotSuspectedForACableThatWasPulledAgain) {
  Cut(*Connect(false));
  Run(grace_ns / 4);
  Connect(/*small_only=*/true);  // Pulled before its first large frame has arrived.
  Run(2 * grace_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_THAT(here.lost[0], HasSubstr("no connection to it for 5000 ms"));
  EXPECT_FALSE(Told().large_lost);
}

}  // namespace
}  // namespace mlxcomm::fabric::links_large_frames_test

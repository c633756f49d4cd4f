// Paths whose MTU has become too small: connections succeed, and the first large frame blocks each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/fabric/paper_rails.h"
#include "tests/unit/daemon/link/status_of.h"

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
    for (PaperRail* const end : connection.ends) end->GoDown(rail::DownCause::kCut);
    here.links->Poll(now_ns);
    there.links->Poll(now_ns);
  }
  v1::LinkStatus Reported() {
    for (v1::LinkStatus& link : link::StatusOfLinks(*here.links)) {
      if (link.peer_id() == there.id().ToString()) return std::move(link);
    }
    return {};
  }
  v1::RailStatus RailAt(const std::string& interface) {
    const v1::LinkStatus reported = Reported();
    const auto rail =
        std::ranges::find(reported.rails(), interface, &v1::RailStatus::local_interface);
    return rail == reported.rails().end() ? v1::RailStatus() : *rail;
  }
  bool IsUp(const std::string& interface) { return RailAt(interface).state() == v1::RailState::up; }
  bool HasRail() { return here.links->HasRailOver(there.id(), {"1", "1"}); }
  std::shared_ptr<Connection> Connect(const std::string& cable, bool small_only) {
    return Join(here, there, {cable, cable}, now_ns, small_only);
  }
  // With good cables to both nodes.
  void ConnectMiddle() {
    Join(here, middle, {"2", "2"}, now_ns);
    Join(middle, there, {"3", "3"}, now_ns);
  }
  void Say(Daemon& from, Daemon& to, const std::string& text) {
    ASSERT_TRUE(from.Say(to, text).ok());
  }
  void Run(std::uint64_t ns) {
    for (const std::uint64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      std::uint64_t next_ns = end_ns;
      for (Daemon* const daemon : {&here, &there, &middle}) {
        next_ns = std::min(next_ns, daemon->links->deadline_ns());
      }
      now_ns = std::max(now_ns, next_ns);
      for (int turn = 0; turn < 8; ++turn) {
        for (Daemon* const daemon : {&here, &there, &middle}) {
          daemon->links->OnTime(now_ns);
          daemon->links->Poll(now_ns);
        }
      }
    }
  }

  Daemon here{0};
  Daemon there{1};
  Daemon middle{2};
  const std::uint64_t grace_ns = here.options.grace_period_ns;
  std::uint64_t now_ns = 1;
};

// Why: each connection looked like the cable's return, so a grace period never ended, and jobs
// waited for their own deadline with a link that was up.
// How: the first large frame blocks each connection, which is dialed again after a silence.
TEST_F(LinksLargeFramesTest, EndAGraceThatConnectionsAloneDoNot) {
  Cut(*Connect(false));
  const std::uint64_t began_ns = now_ns;
  int connections = 0;
  while (here.lost.empty() && now_ns < began_ns + 10 * grace_ns) {
    if (!HasRail()) {
      Connect(/*small_only=*/true);
      ++connections;
    }
    EXPECT_EQ(Reported().state(), v1::LinkState::grace);
    EXPECT_THAT(Reported().detail(), HasSubstr("no large frame has passed on it yet"));
    Run(here.options.heartbeat_interval_ns / 2);
  }
  EXPECT_EQ(connections, 4);
  EXPECT_LE(now_ns - began_ns, 2 * grace_ns + here.options.heartbeat_interval_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_THAT(here.lost[0], HasSubstr("small frames pass to it, but large ones have not for 10"));
  EXPECT_THAT(here.lost[0], HasSubstr("MTU"));
  EXPECT_EQ(Reported().reason(), v1::LinkReason::large_lost);
  EXPECT_EQ(Reported().large_lost_on(), "1 - 1");

  Connect(/*small_only=*/true);  // Like a new node: no grace period is running.
  EXPECT_EQ(Reported().large_lost_on(), "1 - 1") << "and status still says so";
  Run(2 * grace_ns);
  Connect(/*small_only=*/false);
  here.links->Poll(now_ns);
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_EQ(Reported().large_lost_on(), "");
}

// Why: the answer to a large frame takes longer than a connection, and a cable that is back just in
// time must not be lost for that.
TEST_F(LinksLargeFramesTest, HaveTimeToPassOnALateConnection) {
  Cut(*Connect(false));
  Run(grace_ns - 2);
  const std::shared_ptr<Connection> late = Connect(/*small_only=*/true);
  late->cut = false;  // It is not blocked: the answer is in flight.
  Run(here.options.heartbeat_timeout_ns / 4);
  EXPECT_EQ(Reported().state(), v1::LinkState::grace);
  for (PaperRail* const end : late->ends) end->PassLarge();
  Run(grace_ns);
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_THAT(here.lost, IsEmpty());
  EXPECT_THAT(there.lost, IsEmpty());
}

// Why: a second grace period that is shorter than the answer takes must not cut the time for it.
TEST_F(LinksLargeFramesTest, HaveTimeToPassThoughTheGraceIsShort) {
  const std::uint64_t timeout_ns = here.options.heartbeat_timeout_ns;
  for (Daemon* const daemon : {&here, &there}) {
    daemon->options.grace_period_ns = timeout_ns / 8;
    daemon->links = std::make_unique<Links>(daemon->options, *daemon);
  }
  Cut(*Connect(false));
  Run(timeout_ns / 8 - 2);
  const std::shared_ptr<Connection> late = Connect(/*small_only=*/true);
  late->cut = false;  // It has not blocked: the answer is under way.
  Run(timeout_ns * 3 / 8);
  EXPECT_EQ(Reported().state(), v1::LinkState::grace);
  for (PaperRail* const end : late->ends) end->PassLarge();
  Run(timeout_ns);
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
}

// Why: when two of five packets were lost, connections came and went for longer than a grace
// period, and a job was lost although both of its nodes were present.
TEST_F(LinksLargeFramesTest, GetAnotherGraceWhileConnectionsSucceed) {
  Cut(*Connect(false));
  Run(grace_ns / 2);
  Cut(*Connect(/*small_only=*/true));
  Run(grace_ns - 2);
  EXPECT_THAT(here.lost, IsEmpty());
  const std::shared_ptr<Connection> carries = Connect(/*small_only=*/false);
  for (PaperRail* const end : carries->ends) end->PassLarge();
  Run(2 * grace_ns);
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_THAT(there.lost, IsEmpty());
}

// Why: the reason must not depend on how often a connection succeeded before the grace period
// ended.
TEST_F(LinksLargeFramesTest, AreTheReasonEvenIfTheConnectionCameLate) {
  Cut(*Connect(false));
  Run(grace_ns - 2);
  Cut(*Connect(/*small_only=*/true));
  Run(grace_ns - here.options.heartbeat_timeout_ns * 3 / 4);
  Connect(/*small_only=*/true);
  Run(here.options.heartbeat_timeout_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_EQ(Reported().reason(), v1::LinkReason::large_lost);
}

// Why: the MTU is not to blame if only a cable was pulled, whenever that was.
TEST_F(LinksLargeFramesTest, AreNotSuspectedIfTheCableWasPulledAgain) {
  Cut(*Connect(false));
  Run(grace_ns / 4);
  Connect(/*small_only=*/true);  // Pulled before its first large frame has arrived.
  Run(2 * grace_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_THAT(here.lost[0], HasSubstr("no connection to it for 5000 ms"));
  EXPECT_EQ(Reported().large_lost_on(), "");
}

// Why: a cable that carries only small packets is dialed again and again, and each connection
// counted as a route: it replaced the circuit, and what it was given was delayed until it fell
// silent.
TEST_F(LinksLargeFramesTest, DoNotBlockACircuitThatCarriesThem) {
  ConnectMiddle();
  Cut(*Connect(false));
  const std::uint64_t began_ns = now_ns;
  int connections = 0;
  for (int sent = 0; now_ns < began_ns + 3 * grace_ns; ++sent) {
    if (!HasRail()) {
      Connect(/*small_only=*/true);
      ++connections;
    }
    Run(here.options.heartbeat_interval_ns / 2);
    EXPECT_EQ(Reported().state(), v1::LinkState::up);
    EXPECT_THAT(Reported().detail(), HasSubstr("through c"));
    const std::string text = std::to_string(sent);
    Say(here, there, text);
    Say(there, here, text);
    Run(here.options.heartbeat_interval_ns / 4);
    ASSERT_THAT(there.control, SizeIs(sent + 1)) << "at once";
    ASSERT_THAT(here.control, SizeIs(sent + 1));
    EXPECT_EQ(there.control.back(), text);
  }
  EXPECT_GE(connections, 3);
  EXPECT_THAT(here.lost, IsEmpty());
  EXPECT_THAT(there.lost, IsEmpty());
  EXPECT_EQ(Reported().large_lost_on(), "1 - 1");
  if (!HasRail()) Connect(/*small_only=*/true);
  EXPECT_FALSE(IsUp("1"));

  for (const Daemon* const daemon : {&here, &there}) {
    Links& links = *daemon->links;
    links.RemoveRail(daemon == &here ? there.id() : here.id(), {"1", "1"}, "", LinkReason::kCut,
                     now_ns);
  }
  Connect(/*small_only=*/false);
  Run(1);
  EXPECT_EQ(Reported().large_lost_on(), "");
  EXPECT_THAT(Reported().rails(), SizeIs(1)) << "the circuit has gone";
  Say(here, there, "directly");
  Run(1);
  EXPECT_EQ(there.control.back(), "directly");
}

// Also without a grace period, because the node is new.
TEST_F(LinksLargeFramesTest, DoNotBlockACircuitToANewNode) {
  ConnectMiddle();
  Connect(/*small_only=*/true);
  Say(here, there, "hello");
  Run(here.options.heartbeat_timeout_ns / 2);
  EXPECT_THAT(there.control, SizeIs(1));
  EXPECT_THAT(Reported().detail(), HasSubstr("through c"));
}

// Why: both cables were given frames, and those of the bad one waited for its silence each time.
TEST_F(LinksLargeFramesTest, UseTheOtherCable) {
  Connect("2", /*small_only=*/false);
  const std::uint64_t began_ns = now_ns;
  for (int sent = 0; now_ns < began_ns + 3 * grace_ns; ++sent) {
    if (!HasRail()) Connect(/*small_only=*/true);
    for (int i = 0; i < 4; ++i) Say(here, there, "a");
    Run(here.options.heartbeat_interval_ns / 4);
    ASSERT_THAT(there.control, SizeIs(4 * (sent + 1))) << "at once";
  }
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_EQ(Reported().large_lost_on(), "1 - 1");
  if (!HasRail()) Connect(/*small_only=*/true);
  EXPECT_FALSE(IsUp("1"));
  EXPECT_TRUE(IsUp("2"));
  EXPECT_EQ(RailAt("1").reason(), v1::LinkReason::large_lost);
  here.links->OnInterfaceDown("1", now_ns);
  EXPECT_EQ(Reported().large_lost_on(), "") << "whatever is plugged in there next is another path";
}

// Why: the good cable may be pulled for a moment, and the bad one would hold everything sent from
// then on.
TEST_F(LinksLargeFramesTest, BeginAGraceIfOnlyASmallOnlyCableRemains) {
  const std::shared_ptr<Connection> good = Connect("2", /*small_only=*/false);
  Connect(/*small_only=*/true);
  Cut(*good);
  Say(here, there, "a");
  Run(here.options.heartbeat_timeout_ns);
  EXPECT_EQ(Reported().state(), v1::LinkState::grace);
  EXPECT_THAT(there.control, IsEmpty());
  Connect("2", /*small_only=*/false);
  Run(1);
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_THAT(there.control, SizeIs(1));
}

// Why: one side may learn before the other that large frames pass, and must not be refused or
// ignored.
// How: that side's frame arrives first. It proves as much as the answer would.
TEST_F(LinksLargeFramesTest, CountAsPassedOnceThePeerUsesTheRail) {
  ConnectMiddle();
  Run(grace_ns);  // Until there is a circuit.
  const std::shared_ptr<Connection> late = Connect(/*small_only=*/true);
  late->cut = false;
  late->ends[1]->PassLarge();
  there.links->Poll(now_ns);
  Say(there, here, "a");
  here.links->Poll(now_ns);  // Neighbours first advertise their neighbours.
  here.links->Poll(now_ns);
  EXPECT_THAT(here.control, SizeIs(1));
  EXPECT_TRUE(IsUp("1"));
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  Say(here, there, "b");
  there.links->Poll(now_ns);
  there.links->Poll(now_ns);
  EXPECT_THAT(there.control, SizeIs(1)) << "over the same rail";
}

}  // namespace
}  // namespace mlxcomm::fabric::links_large_frames_test

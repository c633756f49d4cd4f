// Ways on which an MTU has become too small: connections can be made, and the first large frame blocks each.
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
  // With good cables to both.
  void ConnectMiddle() {
    Join(here, middle, {"2", "2"}, now_ns);
    Join(middle, there, {"3", "3"}, now_ns);
  }
  void Say(Daemon& from, Daemon& to, const std::string& text) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kControl;
    header.payload_bytes = static_cast<std::uint32_t>(text.size());
    ASSERT_TRUE(
        from.links->Send(to.id(), header, reinterpret_cast<const std::byte*>(text.data()), 0).ok());
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

  Connect(/*small_only=*/true);  // As new, for nobody waits for it.
  EXPECT_EQ(Reported().large_lost_on(), "1 - 1") << "and status still says so";
  Run(2 * grace_ns);
  Connect(/*small_only=*/false);
  here.links->Poll(now_ns);
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_EQ(Reported().large_lost_on(), "");
}

// Why: the answer to a large frame takes longer than a connection does, and a cable that is back just in time
// must not be lost for that.
TEST_F(LinksLargeFramesTest, HaveTimeToPassOnAConnectionThatComesLate) {
  Cut(*Connect(false));
  Run(grace_ns - 2);
  const std::shared_ptr<Connection> late = Connect(/*small_only=*/true);
  late->cut = false;  // It has not blocked: the answer is under way.
  Run(here.options.heartbeat_timeout_ns / 4);
  EXPECT_EQ(Reported().state(), v1::LinkState::grace);
  for (PaperRail* const end : late->ends) end->PassLarge();
  Run(grace_ns);
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_THAT(here.lost, IsEmpty());
  EXPECT_THAT(there.lost, IsEmpty());
}

// Why: where two of five packets are lost, connections came and went for longer than a grace period, and a
// job was lost whose nodes were both there.
TEST_F(LinksLargeFramesTest, HaveAnotherGraceWhileConnectionsCome) {
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

// Why: the reason must not depend on how often a connection could be made before the grace ended.
TEST_F(LinksLargeFramesTest, AreTheReasonThoughTheirConnectionCameLate) {
  Cut(*Connect(false));
  Run(grace_ns - 2);
  Cut(*Connect(/*small_only=*/true));
  Run(grace_ns - here.options.heartbeat_timeout_ns * 3 / 4);
  Connect(/*small_only=*/true);
  Run(here.options.heartbeat_timeout_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_EQ(Reported().reason(), v1::LinkReason::large_lost);
}

// Why: the MTU is no suspect where only a cable was pulled, whichever moment that was.
TEST_F(LinksLargeFramesTest, AreNotSuspectedForACableThatWasPulledAgain) {
  Cut(*Connect(false));
  Run(grace_ns / 4);
  Connect(/*small_only=*/true);  // Pulled before its first large frame has arrived.
  Run(2 * grace_ns);
  ASSERT_THAT(here.lost, SizeIs(1));
  EXPECT_THAT(here.lost[0], HasSubstr("no connection to it for 5000 ms"));
  EXPECT_EQ(Reported().large_lost_on(), "");
}

// Why: a cable that carries small packets only is dialed again and again, and each connection was a way:
// it took the circuit's place, and what was given to it was held up until it was silent.
TEST_F(LinksLargeFramesTest, DoNotKeepACircuitOutThatCarriesThem) {
  ConnectMiddle();
  Cut(*Connect(false));
  const std::uint64_t began_ns = now_ns;
  int connections = 0;
  for (int said = 0; now_ns < began_ns + 3 * grace_ns; ++said) {
    if (!HasRail()) {
      Connect(/*small_only=*/true);
      ++connections;
    }
    Run(here.options.heartbeat_interval_ns / 2);
    EXPECT_EQ(Reported().state(), v1::LinkState::up);
    EXPECT_THAT(Reported().detail(), HasSubstr("through c"));
    const std::string text = std::to_string(said);
    Say(here, there, text);
    Say(there, here, text);
    Run(here.options.heartbeat_interval_ns / 4);
    ASSERT_THAT(there.control, SizeIs(said + 1)) << "at once";
    ASSERT_THAT(here.control, SizeIs(said + 1));
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

// Also where no grace runs, since the node is new.
TEST_F(LinksLargeFramesTest, DoNotKeepACircuitOutOfANewNode) {
  ConnectMiddle();
  Connect(/*small_only=*/true);
  Say(here, there, "hello");
  Run(here.options.heartbeat_timeout_ns / 2);
  EXPECT_THAT(there.control, SizeIs(1));
  EXPECT_THAT(Reported().detail(), HasSubstr("through c"));
}

// Why: frames were given to both cables, and those of the bad one waited for its silence each time.
TEST_F(LinksLargeFramesTest, GoOverTheOtherCable) {
  Connect("2", /*small_only=*/false);
  const std::uint64_t began_ns = now_ns;
  for (int said = 0; now_ns < began_ns + 3 * grace_ns; ++said) {
    if (!HasRail()) Connect(/*small_only=*/true);
    for (int i = 0; i < 4; ++i) Say(here, there, "a");
    Run(here.options.heartbeat_interval_ns / 4);
    ASSERT_THAT(there.control, SizeIs(4 * (said + 1))) << "at once";
  }
  EXPECT_EQ(Reported().state(), v1::LinkState::up);
  EXPECT_EQ(Reported().large_lost_on(), "1 - 1");
  if (!HasRail()) Connect(/*small_only=*/true);
  EXPECT_FALSE(IsUp("1"));
  EXPECT_TRUE(IsUp("2"));
  EXPECT_EQ(RailAt("1").reason(), v1::LinkReason::large_lost);
  here.links->OnInterfaceDown("1", now_ns);
  EXPECT_EQ(Reported().large_lost_on(), "") << "what is plugged in there next is another way";
}

// Why: the good cable may be pulled for a moment, and the bad one would hold what is sent from then on.
TEST_F(LinksLargeFramesTest, BeginAGraceWhereOnlyASmallOnlyCableIsLeft) {
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

// Why: one side may know before the other that large frames pass, and must not be refused or unheard.
// How: that side's frame comes first. It says as much as the answer would.
TEST_F(LinksLargeFramesTest, HavePassedWhereTheOtherSideHandsFramesToTheRail) {
  ConnectMiddle();
  Run(grace_ns);  // Until there is a circuit.
  const std::shared_ptr<Connection> late = Connect(/*small_only=*/true);
  late->cut = false;
  late->ends[1]->PassLarge();
  there.links->Poll(now_ns);
  Say(there, here, "a");
  here.links->Poll(now_ns);  // Neighbours first tell each other of their neighbours.
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

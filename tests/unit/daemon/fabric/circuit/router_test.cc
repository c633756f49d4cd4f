// Fabrics in chains and rings over loopback: nodes that are not neighbours reach each other through
// others, and nothing is lost when the route changes.
#include "daemon/fabric/circuit/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/daemon/fabric/loopback.h"
#include "tests/unit/daemon/fabric/paper_rails.h"
#include "tests/unit/daemon/link/status_of.h"

namespace mlxcomm::fabric::router_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RouterTest : public FabricTest {
 protected:
  static bool Reaches(const Node& from, const Node& to) {
    return from.links->IsReachable(to.options.self.id);
  }
  static v1::LinkStatus LinkOf(const Node& from, const Node& to) {
    for (v1::LinkStatus& link : link::StatusOfLinks(*from.fabric)) {
      if (link.peer_id() == to.options.self.id.ToString()) return std::move(link);
    }
    return {};
  }
};

// a - b - c: the smallest case.
TEST_F(RouterTest, ReachesANodeThatIsNotANeighbour) {
  Node a(io, "a", 1);
  Node b(io, "b", 2, {a.address()});
  Node c(io, "c", 3, {b.address()});
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] { return a.up.size() == 2 && c.up.size() == 2; }));
  EXPECT_EQ(a.up[1].name, "c");
  EXPECT_EQ(a.up[1].software_version, "test");
  EXPECT_EQ(a.up[1].incarnation, c.options.self.incarnation);
  EXPECT_EQ(b.up.size(), 2u);
  EXPECT_EQ(LinkOf(a, c).detail(), "reached through b");
  EXPECT_EQ(LinkOf(a, c).rails().at(0).transport(), v1::Transport::route);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(SendText(a, c, "to c " + std::to_string(i)).ok());
    ASSERT_TRUE(SendText(c, a, std::string(100'000, 'x') + std::to_string(i)).ok());
  }
  ASSERT_TRUE(
      RunUntil({&a, &b, &c}, [&] { return a.control.size() == 300 && c.control.size() == 300; }));
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(c.control[i], "to c " + std::to_string(i));
    EXPECT_EQ(a.control[i], std::string(100'000, 'x') + std::to_string(i));
  }
  EXPECT_THAT(b.control, IsEmpty());
}

TEST_F(RouterTest, LosesNodesBehindAStoppedOneAndNamesTheRoute) {
  const auto quick = [](link::FabricOptions& options) {
    options.grace_period_ns = 100'000'000;
    options.reset_grace_ns = 20'000'000;
  };
  Node a(io, "a", 1, {}, 7, quick);
  Node b(io, "b", 2, {a.address()}, 7, quick);
  Node c(io, "c", 3, {b.address()}, 7, quick);
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] { return a.up.size() == 2 && c.up.size() == 2; }));
  b.fabric->Stop();
  ASSERT_TRUE(RunUntil({&a, &c}, [&] { return a.lost.size() == 2 && c.lost.size() == 2; }));
  EXPECT_THAT(a.lost[1], HasSubstr(", on the route through b"));
  EXPECT_THAT(c.lost[1], HasSubstr(", on the route through b"));
  EXPECT_FALSE(Reaches(a, c));
  Node again(io, "b", 2, {a.address()}, 7, quick);
  Node d(io, "d", 4, {again.address(), c.address()}, 7, quick);
  ASSERT_TRUE(RunUntil({&a, &again, &c, &d}, [&] { return Reaches(a, c) && Reaches(c, a); }));
}

// Why: a node behind a stopped daemon must not be waited for during a whole grace period.
TEST_F(RouterTest, LearnsAtOnceThatADistantNodeHasStopped) {
  const auto patient = [](link::FabricOptions& options) {
    options.grace_period_ns = 600'000'000'000;
  };
  Node a(io, "a", 1, {}, 7, patient);
  Node b(io, "b", 2, {a.address()}, 7, patient);
  Node c(io, "c", 3, {b.address()}, 7, patient);
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] { return a.up.size() == 2 && c.up.size() == 2; }));
  c.fabric->Stop();
  ASSERT_TRUE(RunUntil({&a, &b}, [&] { return a.lost.size() == 1; }));
  EXPECT_THAT(a.lost[0], HasSubstr("its daemon closed the connection"));
  Node again(io, "c", 3, {b.address()}, 7, patient);
  ASSERT_TRUE(RunUntil({&a, &b, &again}, [&] { return a.up.size() == 3; }));
  EXPECT_EQ(a.up[2].incarnation, again.options.self.incarnation);
  ASSERT_TRUE(SendText(again, a, "back").ok());
  ASSERT_TRUE(RunUntil({&a, &b, &again}, [&] { return a.control.size() == 1; }));
}

// Why: a daemon's last messages must also reach distant nodes.
TEST_F(RouterTest, StopSendsWhatIsQueuedForNodesFurtherAway) {
  asio::io_context other_io;
  Node b(other_io, "b", 2);
  Node c(other_io, "c", 3, {b.address()});
  Node a(io, "a", 1, {b.address()});
  ASSERT_TRUE(RunUntil({&a, &b, &c}, [&] { return a.up.size() == 2 && c.up.size() == 2; }));
  constexpr std::size_t kMessages = 50;
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_TRUE(SendText(a, c, std::to_string(i)).ok());
  std::thread stopping([&a] { a.fabric->Stop(); });
  while (c.lost.empty()) {
    other_io.restart();
    other_io.poll();
    b.fabric->Poll();
    c.fabric->Poll();
  }
  stopping.join();
  ASSERT_EQ(c.control.size(), kMessages);
  EXPECT_EQ(c.control.back(), std::to_string(kMessages - 1));
}

// a - b - c, and the long route a - d - e - c; in virtual time.
class ShorterRouteTest : public testing::Test {
 protected:
  ShorterRouteTest() {
    for (std::size_t i = 0; i < 5; ++i) daemons.push_back(std::make_unique<Daemon>(i));
    Connect(1, 2);
    Connect(0, 3);
    Connect(3, 4);
    Connect(4, 2);
    EXPECT_TRUE(PassUntil([&] { return Route() == "reached through d, e"; }));
  }
  Links& At(std::size_t node) { return *daemons[node]->links; }
  void Connect(std::size_t from, std::size_t to) {
    connections[{from, to}] = Join(*daemons[from], *daemons[to], {"x", "x"}, now_ns);
  }
  void Cut(std::size_t from, std::size_t to) {
    for (PaperRail* const end : connections[{from, to}]->ends) end->GoDown(rail::DownCause::kCut);
  }
  // Heartbeats do not matter here: every rail counts as alive.
  void Pass(std::uint64_t ns) {
    for (const std::uint64_t end_ns = now_ns + ns; now_ns < end_ns;) {
      now_ns = std::min(now_ns + 10'000'000, end_ns);
      for (const auto& daemon : daemons) {
        daemon->links->OnTime(now_ns);
        daemon->links->Poll(now_ns);
        if (daemon->links->PrepareToSleep()) daemon->links->WakeUp();
      }
    }
  }
  bool PassUntil(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) Pass(10'000'000);
    return condition();
  }
  v1::LinkStatus LinkBetween(std::size_t from, std::size_t to) {
    for (v1::LinkStatus& link : link::StatusOfLinks(At(from))) {
      if (link.peer_id() == daemons[to]->id().ToString()) return std::move(link);
    }
    return {};
  }
  std::string Route() { return LinkBetween(0, 2).detail(); }
  std::pair<unsigned, unsigned> RailsBetween() {
    return {static_cast<unsigned>(LinkBetween(0, 2).rails().size()),
            static_cast<unsigned>(LinkBetween(2, 0).rails().size())};
  }

  std::vector<std::unique_ptr<Daemon>> daemons;
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<Connection>> connections;
  std::uint64_t now_ns = 1;
};

TEST_F(ShorterRouteTest, IsUsedOnceItHasExistedForASecond) {
  Connect(0, 1);
  Pass(900'000'000);
  EXPECT_EQ(Route(), "reached through d, e");
  Pass(300'000'000);
  EXPECT_EQ(Route(), "reached through b");
  EXPECT_EQ(RailsBetween(), std::pair(1u, 1u));  // The old circuit is gone at both ends.
  for (const auto& daemon : daemons) EXPECT_THAT(daemon->lost, IsEmpty());
}

// Why: a cable with a loose contact must not move traffic that another route carries well.
TEST_F(ShorterRouteTest, IsNotUsedWhileItsCableFlaps) {
  for (int flap = 0; flap < 20; ++flap) {
    Connect(0, 1);
    Pass(500'000'000);
    EXPECT_EQ(Route(), "reached through d, e");
    Cut(0, 1);
    Pass(100'000'000);
    EXPECT_EQ(Route(), "reached through d, e");
  }
  Connect(0, 1);
  Pass(1'200'000'000);
  EXPECT_EQ(Route(), "reached through b");
  EXPECT_THAT(daemons[2]->lost, IsEmpty());
}

// Why: a node that forwards others' operations keeps its machine awake, but only while it does.
TEST_F(ShorterRouteTest, MakesNodesBetweenReportThatTheyForward) {
  Pass(3'000'000'000);
  const auto forwarders = [this] {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < daemons.size(); ++i) {
      if (daemons[i]->links->forwards()) found.push_back(i);
    }
    return found;
  };
  EXPECT_THAT(forwarders(), IsEmpty());
  wire::FrameHeader header;
  header.type = wire::FrameType::kEager;
  ASSERT_TRUE(At(0).Send(daemons[2]->id(), header, nullptr, 0).ok());
  Pass(2'000'000'000);
  EXPECT_THAT(forwarders(), ElementsAre(3, 4));
  Pass(Links::kForwardsNs - 10'000'000'000);
  EXPECT_THAT(forwarders(), ElementsAre(3, 4));
  ASSERT_TRUE(At(0).Send(daemons[2]->id(), header, nullptr, 0).ok());
  Pass(20'000'000'000);
  EXPECT_THAT(forwarders(), ElementsAre(3, 4));
  Pass(Links::kForwardsNs);
  EXPECT_THAT(forwarders(), IsEmpty());
}

// Why: a direct cable is the shortest route, and needs no delay.
TEST_F(ShorterRouteTest, YieldsToADirectCableAtOnce) {
  Connect(0, 2);
  Pass(50'000'000);
  EXPECT_EQ(Route(), "");
  EXPECT_EQ(RailsBetween(), std::pair(1u, 1u));
  EXPECT_THAT(daemons[0]->lost, IsEmpty());
  EXPECT_THAT(daemons[2]->lost, IsEmpty());
}

}  // namespace
}  // namespace mlxcomm::fabric::router_test

// Many nodes that want to be linked with one daemon: who is refused, who yields, what is kept of those that
// have gone. node_places_test.cc has the rule alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/link/links.h"
#include "tests/unit/daemon/link/paper_rails.h"

namespace mlxcomm::fabric::links_places_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Nodes that are linked: each has a rail to this daemon, of which nobody holds the other end.
class PlacesTest : public testing::Test {
 protected:
  PlacesTest() { daemon.options.nodes_max = 4; }
  Links& links() { return *daemon.links; }
  static NodeId Stranger(int number) {
    NodeId id;
    id.bytes = {99, static_cast<std::uint8_t>(number)};
    return id;
  }
  // Each turn is a tick.
  void Pass(std::uint64_t seconds) {
    const std::uint64_t end_ns = now_ns + seconds * 1'000'000'000;
    while (now_ns < end_ns) {
      now_ns += daemon.options.heartbeat_interval_ns;
      links().OnTime(now_ns);
      links().Poll(now_ns);
    }
  }
  absl::Status Link(int number, const std::string& address = "",
                    NodeClaim claim = NodeClaim::kComes) {
    const RailPath path{"x", "y" + std::to_string(number)};
    const auto join = links().BeginAsDialer(Stranger(number), path, {address, claim});
    if (!join.ok()) return join.status();
    wire::Introduction theirs{};
    theirs.session = 5;
    theirs.next_expected = 1;
    connections.push_back(std::make_shared<Connection>());
    return links().Finish(*join, std::make_unique<PaperRail>(connections.back(), 0, now_ns), theirs,
                          now_ns);
  }
  void LinkAll() {
    for (int number = 0; number < 4; ++number) ASSERT_TRUE(Link(number).ok());
  }
  std::size_t linked() { return links().nodes(); }

  std::uint64_t now_ns = 1;
  Daemon daemon{0};
  std::vector<std::shared_ptr<Connection>> connections;
};

// Why: who holds the key may say that it is any number of nodes.
TEST_F(PlacesTest, RefusesANewcomerWhereAllPlacesAreTaken) {
  LinkAll();
  const absl::Status refused = Link(4);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("there are 4 nodes here"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("raise nodes_max"));
  EXPECT_EQ(links().Judge(Stranger(4), {"x", "y4"}), wire::VerdictCode::kTooManyNodes);
  EXPECT_EQ(links().Judge(Stranger(3), {"x", "z"}), wire::VerdictCode::kAccepted);
  EXPECT_EQ(linked(), 4u);
  EXPECT_EQ(links().nodes_refused(), 1u);
  EXPECT_THAT(daemon.lost, IsEmpty());
}

TEST_F(PlacesTest, LetsOneThatHasOnlyComeYieldToOneThatIsNamed) {
  LinkAll();
  EXPECT_TRUE(Link(4, "", NodeClaim::kNamed).ok());
  EXPECT_TRUE(links().IsReachable(Stranger(4)));
  EXPECT_FALSE(links().IsReachable(Stranger(3))) << "the newest";
  EXPECT_EQ(linked(), 4u);
  ASSERT_EQ(daemon.lost.size(), 1u);
  EXPECT_THAT(daemon.lost[0], HasSubstr("yields to a node that is wanted here"));
}

// Whatever the others claim, and also once it has been away and comes back by itself.
TEST_F(PlacesTest, KeepsThePlaceOfANodeInAJob) {
  daemon.wanted = {Stranger(1)};
  LinkAll();
  for (int number = 4; number < 7; ++number) {
    EXPECT_TRUE(Link(number, "", NodeClaim::kNamed).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Link(7, "", NodeClaim::kNamed)));
  EXPECT_TRUE(links().IsReachable(Stranger(1)));
  daemon.wanted.push_back(Stranger(8));
  EXPECT_TRUE(Link(8).ok());
  EXPECT_TRUE(links().IsReachable(Stranger(1)));
  EXPECT_EQ(linked(), 4u);
}

// A job that is made later, too: the node was nobody's when it came.
TEST_F(PlacesTest, KeepsThePlaceOfANodeThatAJobHasBeenMadeWith) {
  LinkAll();
  links().Prepare(Stranger(3));
  EXPECT_TRUE(Link(4, "", NodeClaim::kNamed).ok());
  EXPECT_TRUE(links().IsReachable(Stranger(3)));
  EXPECT_FALSE(links().IsReachable(Stranger(2)));
}

TEST_F(PlacesTest, BoundsWhatOneAddressHas) {
  daemon.options.nodes_max = 64;
  int linked_of_it = 0;
  for (int number = 0; number < 40; ++number) linked_of_it += Link(number, "10.0.0.9").ok() ? 1 : 0;
  EXPECT_EQ(linked_of_it, 16);
  EXPECT_EQ(links().Judge(Stranger(50), {"x", "y"}, {"10.0.0.9", NodeClaim::kComes}),
            wire::VerdictCode::kTooManyOfAddress);
  EXPECT_TRUE(Link(51, "10.0.0.8").ok());
  // Nor more connections: further cables of the nodes that it has.
  int more = 0;
  for (int cable = 0; cable < 40; ++cable) {
    const RailPath path{"x", "more" + std::to_string(cable)};
    const auto join =
        links().BeginAsDialer(Stranger(cable % 16), path, {"10.0.0.9", NodeClaim::kComes});
    if (!join.ok()) continue;
    wire::Introduction theirs{};
    theirs.session = 5;
    theirs.known_peer_session = join->own.session;
    theirs.next_expected = 1;
    connections.push_back(std::make_shared<Connection>());
    more += links().Finish(*join, std::make_unique<PaperRail>(connections.back(), 0, now_ns),
                           theirs, now_ns)
                    .ok()
                ? 1
                : 0;
  }
  EXPECT_EQ(more, 16);
}

// Why: a node that has gone is remembered for ten minutes.
TEST_F(PlacesTest, ANodeThatIsLostKeepsNothingOfWhatItHad) {
  LinkAll();
  wire::FrameHeader header;
  header.type = wire::FrameType::kEager;
  const std::vector<std::byte> payload(wire::kEagerBytesMax);
  header.payload_bytes = wire::kEagerBytesMax;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(links().Send(Stranger(0), header, payload.data(), 0).ok());
  }
  const auto slot_bytes = [&] {
    std::uint64_t bytes = 0;
    links().ForEach([&](const fabric::Link& link) {
      if (link.peer().id == Stranger(0)) bytes = link.channel().slot_bytes();
    });
    return bytes;
  };
  ASSERT_GT(slot_bytes(), 200u * wire::kEagerBytesMax / 2);
  connections[0]->ends[0]->GoDown(DownCause::kReset);
  Pass(2);
  ASSERT_FALSE(links().IsReachable(Stranger(0)));
  EXPECT_EQ(slot_bytes(), 0u);
}

}  // namespace
}  // namespace mlxcomm::fabric::links_places_test

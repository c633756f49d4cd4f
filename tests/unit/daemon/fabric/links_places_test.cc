// Many nodes that want a link with one daemon: which are refused, which yield, and what is kept of
// lost ones. node_places_test.cc has the rule alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/fabric/links.h"
#include "tests/unit/daemon/fabric/paper_rails.h"

namespace mlxcomm::fabric::links_places_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Linked nodes: each has a rail to this daemon, whose other end has no owner.
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
                    link::NodeClaim claim = link::NodeClaim::kComes) {
    const rail::RailPath path{"x", "y" + std::to_string(number)};
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

// Why: a key holder can claim any number of node ids.
TEST_F(PlacesTest, RefusesANewcomerWhenAllPlacesAreTaken) {
  LinkAll();
  const absl::Status refused = Link(4);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("4 nodes are linked here already"));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("peers { nodes_max: 4 } allows: raise it here"));
  EXPECT_TRUE(Links::IsNoPlace(refused));
  EXPECT_EQ(links().Judge(Stranger(4), {"x", "y4"}), wire::VerdictCode::kTooManyNodes);
  EXPECT_EQ(links().Judge(Stranger(3), {"x", "z"}), wire::VerdictCode::kAccepted);
  EXPECT_EQ(linked(), 4u);
  EXPECT_EQ(links().nodes_refused(), 1u);
  EXPECT_THAT(daemon.lost, IsEmpty());
}

TEST_F(PlacesTest, LetsAnUnclaimedNodeYieldToAConfiguredOne) {
  LinkAll();
  EXPECT_TRUE(Link(4, "", link::NodeClaim::kNamed).ok());
  EXPECT_TRUE(links().IsReachable(Stranger(4)));
  EXPECT_FALSE(links().IsReachable(Stranger(3))) << "the newest";
  EXPECT_EQ(linked(), 4u);
  ASSERT_EQ(daemon.lost.size(), 1u);
  EXPECT_THAT(daemon.lost[0], HasSubstr("it gives up its place for another node"));
}

// Whatever the others claim, and even after it was away and has returned.
TEST_F(PlacesTest, KeepsThePlaceOfANodeInAJob) {
  daemon.wanted = {Stranger(1)};
  LinkAll();
  for (int number = 4; number < 7; ++number) {
    EXPECT_TRUE(Link(number, "", link::NodeClaim::kNamed).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Link(7, "", link::NodeClaim::kNamed)));
  EXPECT_TRUE(links().IsReachable(Stranger(1)));
  daemon.wanted.push_back(Stranger(8));
  EXPECT_TRUE(Link(8).ok());
  EXPECT_TRUE(links().IsReachable(Stranger(1)));
  EXPECT_EQ(linked(), 4u);
}

// Also for a job that is formed later: the node had no claim when it connected.
TEST_F(PlacesTest, KeepsThePlaceOfANodeInALaterJob) {
  LinkAll();
  daemon.wanted = {Stranger(3)};
  links().Prepare(Stranger(3));
  EXPECT_TRUE(Link(4, "", link::NodeClaim::kNamed).ok());
  EXPECT_TRUE(links().IsReachable(Stranger(3)));
  EXPECT_FALSE(links().IsReachable(Stranger(2)));
}

// Why: a configured node may connect first, and later another node may answer at its address.
TEST_F(PlacesTest, CountsANodeAsConfiguredWhileItAnswersAtTheAddress) {
  LinkAll();
  for (int number = 0; number < 4; ++number) {
    links().SetDialedAs(Stranger(number), link::NodeClaim::kNamed);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Link(4, "", link::NodeClaim::kNamed)));
  links().SetDialedAs(Stranger(1), link::NodeClaim::kComes);
  EXPECT_TRUE(Link(4, "", link::NodeClaim::kNamed).ok());
  EXPECT_FALSE(links().IsReachable(Stranger(1)));
  links().SetDialedAs(Stranger(99),
                      link::NodeClaim::kNamed);  // It is refused, so nothing of it exists.
  EXPECT_FALSE(links().IsReachable(Stranger(99)));
}

// Why: a whole cluster may be behind one address, or one address may invent many nodes.
TEST_F(PlacesTest, LetsOneAddressHaveUnusedPlaces) {
  daemon.options.nodes_max = 64;
  for (int number = 0; number < 40; ++number) ASSERT_TRUE(Link(number, "10.0.0.9").ok()) << number;
  for (int number = 40; number < 64; ++number) {
    ASSERT_TRUE(Link(number, "10.0.1." + std::to_string(number)).ok()) << number;
  }
  EXPECT_EQ(links().Judge(Stranger(100), {"x", "y"}, {"10.0.0.9", link::NodeClaim::kComes}),
            wire::VerdictCode::kTooManyOfAddress);
  int got_in = 0;
  for (int number = 64; number < 100; ++number) {
    got_in += Link(number, "10.0.2." + std::to_string(number)).ok() ? 1 : 0;
  }
  EXPECT_EQ(got_in, 24) << "that address keeps a quarter";
  EXPECT_TRUE(links().IsReachable(Stranger(15)));
  EXPECT_FALSE(links().IsReachable(Stranger(16)));
  EXPECT_TRUE(links().IsReachable(Stranger(40))) << "no other node has yielded";
  EXPECT_EQ(linked(), 64u);
}

// Why: a node with two addresses could free a place at one by connecting from the other.
TEST_F(PlacesTest, CountsANodeAtTheAddressOfItsFirstConnection) {
  daemon.options.nodes_max = 64;
  for (int number = 0; number < 20; ++number) ASSERT_TRUE(Link(number, "10.0.0.9").ok());
  for (int number = 20; number < 64; ++number) {
    ASSERT_TRUE(Link(number, "10.0.1." + std::to_string(number)).ok());
  }
  for (int number = 0; number < 10; ++number) {
    const auto join = links().BeginAsDialer(Stranger(number), {"x", "elsewhere"},
                                            {"10.0.0.8", link::NodeClaim::kComes});
    ASSERT_TRUE(join.ok()) << join.status();
    links().Abandon(*join);
  }
  EXPECT_EQ(links().Judge(Stranger(100), {"x", "y"}, {"10.0.0.7", link::NodeClaim::kComes}),
            wire::VerdictCode::kAccepted)
      << "20 are still of one address, so one of those yields";
}

// Further cables have their own limit; a refused one is not a refused node.
TEST_F(PlacesTest, BoundsFurtherConnectionsOfAnAddress) {
  daemon.options.nodes_max = 64;
  for (int number = 0; number < 16; ++number) ASSERT_TRUE(Link(number, "10.0.0.9").ok());
  for (const auto& connection : connections) connection->ends[0]->PassLarge();
  links().Poll(now_ns);
  // Side rails do not count.
  for (int number = 0; number < 16; ++number) {
    connections.push_back(std::make_shared<Connection>());
    ASSERT_TRUE(links()
                    .AddSideRail(Stranger(number),
                                 std::make_unique<PaperRail>(connections.back(), 0, now_ns),
                                 {"x", "y" + std::to_string(number), Transport::kRdma}, now_ns)
                    .ok());
  }
  int more = 0;
  absl::Status refused;
  for (int cable = 0; cable < 40; ++cable) {
    const rail::RailPath path{"x", "more" + std::to_string(cable)};
    const auto join =
        links().BeginAsDialer(Stranger(cable % 16), path, {"10.0.0.9", link::NodeClaim::kComes});
    if (!join.ok()) {
      refused = join.status();
      EXPECT_EQ(links().Judge(Stranger(cable % 16), path, {"10.0.0.9", link::NodeClaim::kComes}),
                wire::VerdictCode::kTooManyConnections);
      continue;
    }
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
  EXPECT_THAT(std::string(refused.message()), HasSubstr("32 from this address"));
  EXPECT_FALSE(Links::IsNoPlace(refused));
  EXPECT_EQ(links().nodes_refused(), 0u);
}

// Why: nodes_max bounds the neighbours, each of which costs sockets and buffers. Without a full
// mesh, a node reaches many more through others, and nodes that a neighbour invents must not
// prevent that.
TEST(FarNodesTest, NeedNoPlaceOfANeighbour) {
  constexpr std::size_t kLeaves = 6;
  std::vector<std::unique_ptr<Daemon>> daemons;
  std::vector<std::shared_ptr<Connection>> cables;
  std::uint64_t now_ns = 1'000'000;
  daemons.push_back(std::make_unique<Daemon>(0));
  for (std::size_t leaf = 1; leaf <= kLeaves; ++leaf) {
    daemons.push_back(std::make_unique<Daemon>(leaf));
    daemons[leaf]->options.nodes_max = 2;
    cables.push_back(Join(*daemons[leaf], *daemons[0], {"x", "y" + std::to_string(leaf)}, now_ns));
  }
  for (int turn = 0; turn < 400; ++turn) {
    now_ns += 10'000'000;
    for (const auto& daemon : daemons) {
      daemon->links->OnTime(now_ns);
      daemon->links->Poll(now_ns);
    }
  }
  for (std::size_t leaf = 1; leaf <= kLeaves; ++leaf) {
    const Links& links = *daemons[leaf]->links;
    EXPECT_EQ(links.nodes(), 1u);
    EXPECT_EQ(links.far_nodes(), kLeaves - 1);
    EXPECT_EQ(links.nodes_refused(), 0u);
    for (const auto& other : daemons) {
      const bool itself = other == daemons[leaf];
      EXPECT_TRUE(itself || links.IsReachable(other->id())) << leaf;
    }
  }
  // Circuits end before their neighbours' links.
  for (std::size_t i = daemons.size(); i-- > 0;) daemons[i]->links->StopRails();
}

// Why: a lost node is remembered for ten minutes.
TEST_F(PlacesTest, ALostNodeKeepsNoMemory) {
  LinkAll();
  wire::FrameHeader header;
  header.type = wire::FrameType::kEager;
  const std::vector<std::byte> payload(wire::kEagerBytesMax);
  header.payload_bytes = wire::kEagerBytesMax;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(links().Send(Stranger(0), header, payload.data(), 0).ok());
  }
  constexpr std::uint64_t kNoLink = ~std::uint64_t{0};
  const auto slot_bytes = [&] {
    std::uint64_t bytes = kNoLink;
    links().ForEach([&](const link::Link& link) {
      if (link.peer().id == Stranger(0)) bytes = link.channel().slot_bytes();
    });
    return bytes;
  };
  ASSERT_NE(slot_bytes(), kNoLink);
  ASSERT_GT(slot_bytes(), 200u * wire::kEagerBytesMax / 2);
  connections[0]->ends[0]->GoDown(rail::DownCause::kReset);
  Pass(2);
  ASSERT_FALSE(links().IsReachable(Stranger(0)));
  EXPECT_EQ(slot_bytes(), 0u) << "the link itself is still remembered";
}

// Why: the allocator keeps freed memory between live blocks, and most of a node's memory is like
// that.
TEST_F(PlacesTest, ReportsFreedMemoryOnceForSeveralNodes) {
  daemon.options.heartbeat_timeout_ns = 10 * Links::kForgetNs;
  LinkAll();
  Pass(2);
  ASSERT_FALSE(links().TakeMemoryFreed());
  for (const std::size_t number : {0u, 1u, 2u})
    connections[number]->ends[0]->GoDown(rail::DownCause::kReset);
  Pass(2);
  ASSERT_EQ(linked(), 1u);
  EXPECT_TRUE(links().TakeMemoryFreed());
  Pass(5);
  EXPECT_FALSE(links().TakeMemoryFreed()) << "nothing has gone since";
  Pass(Links::kForgetNs / 1'000'000'000 + 2);
  EXPECT_TRUE(links().TakeMemoryFreed()) << "they are forgotten";
}

}  // namespace
}  // namespace mlxcomm::fabric::links_places_test

// The table of linked nodes: routes in lines and rings, newer advertisements, forgetting, and
// malformed input.
#include "daemon/fabric/circuit/route_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace mlxcomm::fabric::route_table_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Verdict = RouteTable::Verdict;

NodeId Id(int number) {
  NodeId id;
  id.bytes[0] = static_cast<std::uint8_t>(number >> 8);
  id.bytes[1] = static_cast<std::uint8_t>(number);
  return id;
}

Advertisement Reports(int origin, std::uint64_t number, std::vector<int> neighbours) {
  Advertisement advertisement;
  advertisement.origin = Id(origin);
  advertisement.incarnation = 7;
  advertisement.number = number;
  advertisement.name = "n" + std::to_string(origin);
  std::sort(neighbours.begin(), neighbours.end());
  for (const int neighbour : neighbours) advertisement.neighbours.push_back(Id(neighbour));
  return advertisement;
}

// Node 1's table; its routes are computed after each message.
struct Table : RouteTable {
  Table() : RouteTable(Id(1), 7, "n1") {}
  void Neighbours(const std::vector<int>& numbers) {
    std::vector<NodeId> nodes;
    for (const int number : numbers) nodes.push_back(Id(number));
    SetNeighbours(nodes);
    FindRoutes(now);
  }
  Verdict Receive(const Advertisement& advertisement) {
    const Verdict verdict = Take(advertisement);
    if (changed()) FindRoutes(now);
    return verdict;
  }
  std::vector<int> Route(int to) const {
    std::vector<int> route;
    for (const NodeId& node : RouteTo(Id(to))) route.push_back(node.bytes[0] << 8 | node.bytes[1]);
    return route;
  }
  std::uint64_t now = 1000;
};

TEST(RouteTableTest, FindsTheRouteAlongALine) {
  Table table;
  table.Neighbours({2});
  EXPECT_EQ(table.Receive(Reports(2, 1, {1, 3})), Verdict::kNewer);
  EXPECT_EQ(table.Receive(Reports(3, 1, {2, 4})), Verdict::kNewer);
  EXPECT_EQ(table.Receive(Reports(4, 1, {3})), Verdict::kNewer);
  EXPECT_THAT(table.Route(2), ElementsAre(1, 2));
  EXPECT_THAT(table.Route(4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(table.Reachable(), ElementsAre(Id(2), Id(3), Id(4)));
  EXPECT_THAT(table.Route(1), IsEmpty());
  EXPECT_THAT(table.Route(9), IsEmpty());
}

TEST(RouteTableTest, TakesTheShorterRouteRoundARingAndTheOtherAfterACut) {
  Table table;
  table.Neighbours({2, 5});
  table.Receive(Reports(2, 1, {1, 3}));
  table.Receive(Reports(3, 1, {2, 4}));
  table.Receive(Reports(4, 1, {3, 5}));
  table.Receive(Reports(5, 1, {4, 1}));
  EXPECT_THAT(table.Route(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(table.Route(4), ElementsAre(1, 5, 4));
  table.Receive(Reports(3, 2, {4}));  // The cable between 2 and 3; 3 has noticed first.
  EXPECT_THAT(table.Route(3), ElementsAre(1, 5, 4, 3));
  table.Receive(Reports(2, 2, {1}));
  EXPECT_THAT(table.Route(3), ElementsAre(1, 5, 4, 3));
  table.Neighbours({2});
  EXPECT_THAT(table.Route(3), IsEmpty());
  EXPECT_THAT(table.Reachable(), ElementsAre(Id(2)));
}

TEST(RouteTableTest, PrefersSmallerIdsAmongEquallyLongRoutes) {
  Table table;
  table.Neighbours({3, 2});
  table.Receive(Reports(3, 1, {1, 4}));
  table.Receive(Reports(4, 1, {2, 3}));
  table.Receive(Reports(2, 1, {1, 4}));
  EXPECT_THAT(table.Route(4), ElementsAre(1, 2, 4));
}

// Why: if one end has noticed that a link is gone, nothing passes there any more.
TEST(RouteTableTest, CountsALinkOnlyIfBothEndsAdvertiseIt) {
  Table table;
  table.Neighbours({2});
  table.Receive(Reports(2, 1, {3}));
  table.Receive(Reports(3, 1, {2}));
  EXPECT_THAT(table.Reachable(), IsEmpty());  // 2 does not report its link to us yet.
  table.Receive(Reports(2, 2, {1, 3}));
  EXPECT_THAT(table.Route(3), ElementsAre(1, 2, 3));
}

TEST(RouteTableTest, AcceptsNewerAndAnswersOlderAdvertisements) {
  Table table;
  table.Neighbours({2});
  EXPECT_EQ(table.Receive(Reports(2, 5, {1})), Verdict::kNewer);
  EXPECT_EQ(table.Receive(Reports(2, 5, {1})), Verdict::kKnown);
  EXPECT_EQ(table.Receive(Reports(2, 4, {})), Verdict::kOlder);
  EXPECT_THAT(table.Route(2), ElementsAre(1, 2));
  Advertisement restarted = Reports(2, 5, {});
  restarted.incarnation = 8;  // The same number by chance: one must win everywhere.
  EXPECT_EQ(table.Receive(restarted), Verdict::kNewer);
  EXPECT_EQ(table.Receive(Reports(2, 5, {1})), Verdict::kOlder);
}

// Why: a restarted daemon counts from 1, and others remember its earlier run.
TEST(RouteTableTest, NumbersItsOwnBeyondAnEarlierRun) {
  Table table;
  table.Neighbours({2});
  EXPECT_EQ(table.Receive(Reports(1, 500, {9})), Verdict::kOwn);
  EXPECT_EQ(table.Own().number, 501u);
  EXPECT_THAT(table.Own().neighbours, ElementsAre(Id(2)));
  EXPECT_EQ(table.Receive(table.Own()), Verdict::kKnown);  // It came back round a ring.
  EXPECT_EQ(table.Receive(Reports(1, 500, {9})), Verdict::kOlder);
  EXPECT_EQ(table.Receive(Reports(1, wire::kAdvertisementMax, {})), Verdict::kRefused);
}

// Why: a node's advertisement may arrive before the links that lead to it; but a node that stays
// unreachable is useless.
TEST(RouteTableTest, ForgetsNodesThatStayUnreachable) {
  Table table;
  table.Neighbours({2});
  table.Receive(Reports(4, 1, {3}));
  table.Receive(Reports(3, 1, {2, 4}));
  table.Receive(Reports(2, 1, {1, 3}));
  EXPECT_THAT(table.Route(4), ElementsAre(1, 2, 3, 4));
  table.Receive(Reports(2, 2, {1}));
  table.now += RouteTable::kForgetNs - 1;
  table.ForgetUnreachable(table.now);
  table.Receive(Reports(2, 3, {1, 3}));
  EXPECT_THAT(table.Route(4), ElementsAre(1, 2, 3, 4));  // Back in time.
  table.Receive(Reports(2, 4, {1}));
  table.now += RouteTable::kForgetNs;
  table.ForgetUnreachable(table.now);
  EXPECT_EQ(table.Find(Id(3)), nullptr);
  EXPECT_EQ(table.Find(Id(4)), nullptr);
  EXPECT_NE(table.Find(Id(2)), nullptr);
}

TEST(RouteTableTest, HoldsNoMoreNodesThanItsLimit) {
  Table table;
  table.Neighbours({2});
  table.Receive(Reports(2, 1, {1}));
  for (int node = 3; node <= 1024; ++node) {
    EXPECT_EQ(table.Receive(Reports(node, 1, {})), Verdict::kNewer);
  }
  ASSERT_EQ(table.All().size(), RouteTable::kNodesMax);
  EXPECT_EQ(table.Receive(Reports(2000, 1, {})), Verdict::kNewer);  // Replaces an unreachable one.
  EXPECT_EQ(table.All().size(), RouteTable::kNodesMax);
  EXPECT_THAT(table.Route(2), ElementsAre(1, 2));
}

TEST(RouteTableTest, RefusesAnotherNodeIfAllAreReachable) {
  Table table;
  table.Neighbours({2});
  for (int node = 2; node <= 1024; ++node) table.Receive(Reports(node, 1, {node - 1, node + 1}));
  EXPECT_EQ(table.Reachable().size(), 1023u);
  EXPECT_EQ(table.Receive(Reports(2000, 1, {})), Verdict::kRefused);
  EXPECT_EQ(table.Route(33).size(), wire::kRouteNodesMax);
  EXPECT_THAT(table.Route(34), IsEmpty());  // Too long a route.
}

TEST(RouteTableTest, AdvertisesNoMoreNeighboursThanTheLimit) {
  Table table;
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 2);
  table.Neighbours(numbers);
  EXPECT_EQ(table.Own().neighbours.size(), wire::kNeighboursMax);
  EXPECT_TRUE(Decode(Encode(table.Own())).has_value());
}

TEST(RouteTableTest, EncodesWhatItDecodes) {
  const Advertisement advertisement = Reports(3, 9, {1, 2, 700});
  EXPECT_EQ(Decode(Encode(advertisement)), advertisement);
  EXPECT_EQ(Decode(Encode(Reports(3, 1, {}))), Reports(3, 1, {}));
}

// Why: another host wrote these bytes.
TEST(RouteTableTest, DecodesNoMalformedAdvertisement) {
  const std::vector<std::byte> fine = Encode(Reports(3, 9, {1, 2}));
  const auto refuses = [&](const std::function<void(std::vector<std::byte>&)>& change) {
    std::vector<std::byte> changed = fine;
    change(changed);
    return !Decode(changed).has_value();
  };
  const auto put = [](std::size_t at, auto value) {
    return [=](std::vector<std::byte>& payload) {
      std::memcpy(payload.data() + at, &value, sizeof value);
    };
  };
  EXPECT_TRUE(refuses([](auto& payload) { payload.resize(sizeof(wire::Advertisement) - 1); }));
  EXPECT_TRUE(refuses([](auto& payload) { payload.pop_back(); }));
  EXPECT_TRUE(refuses([](auto& payload) { payload.push_back({}); }));
  using Head = wire::Advertisement;
  EXPECT_TRUE(refuses(put(offsetof(Head, number), std::uint64_t{0})));
  EXPECT_TRUE(refuses(put(offsetof(Head, number), wire::kAdvertisementMax + 1)));
  EXPECT_TRUE(refuses(put(offsetof(Head, neighbour_count), std::uint32_t{3})));
  EXPECT_TRUE(refuses(put(offsetof(Head, neighbour_count), ~std::uint32_t{0})));
  EXPECT_TRUE(refuses(put(offsetof(Head, reserved), std::uint32_t{1})));
  // A duplicate, out of order, itself.
  EXPECT_TRUE(refuses(put(sizeof(Head), Id(2).bytes)));
  EXPECT_TRUE(refuses(put(sizeof(Head), Id(5).bytes)));
  EXPECT_TRUE(refuses(put(sizeof(Head) + 16, Id(3).bytes)));
  std::vector<std::byte> name = fine;
  std::memcpy(name.data() + offsetof(Head, node_name), "evil\n\xff", 7);
  EXPECT_EQ(Decode(name)->name, "evil??");
}

}  // namespace
}  // namespace mlxcomm::fabric::route_table_test

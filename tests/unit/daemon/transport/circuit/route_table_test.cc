// The table of which nodes are linked: routes in lines and rings, which report is newer, what is
// forgotten, and what is not believed.
#include "daemon/transport/circuit/route_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

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

Advertisement Tells(int origin, std::uint64_t number, std::vector<int> neighbours) {
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
    FindWays(now);
  }
  Verdict Hears(const Advertisement& advertisement) {
    const Verdict verdict = Take(advertisement);
    if (changed()) FindWays(now);
    return verdict;
  }
  std::vector<int> Way(int to) const {
    std::vector<int> way;
    for (const NodeId& node : WayTo(Id(to))) way.push_back(node.bytes[0] << 8 | node.bytes[1]);
    return way;
  }
  std::uint64_t now = 1000;
};

TEST(RouteTableTest, FindsTheWayAlongALine) {
  Table table;
  table.Neighbours({2});
  EXPECT_EQ(table.Hears(Tells(2, 1, {1, 3})), Verdict::kNewer);
  EXPECT_EQ(table.Hears(Tells(3, 1, {2, 4})), Verdict::kNewer);
  EXPECT_EQ(table.Hears(Tells(4, 1, {3})), Verdict::kNewer);
  EXPECT_THAT(table.Way(2), ElementsAre(1, 2));
  EXPECT_THAT(table.Way(4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(table.Reachable(), ElementsAre(Id(2), Id(3), Id(4)));
  EXPECT_THAT(table.Way(1), IsEmpty());
  EXPECT_THAT(table.Way(9), IsEmpty());
}

TEST(RouteTableTest, GoesTheShorterWayRoundARingAndTheOtherAfterACut) {
  Table table;
  table.Neighbours({2, 5});
  table.Hears(Tells(2, 1, {1, 3}));
  table.Hears(Tells(3, 1, {2, 4}));
  table.Hears(Tells(4, 1, {3, 5}));
  table.Hears(Tells(5, 1, {4, 1}));
  EXPECT_THAT(table.Way(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(table.Way(4), ElementsAre(1, 5, 4));
  table.Hears(Tells(3, 2, {4}));  // The cable between 2 and 3; 3 has noticed first.
  EXPECT_THAT(table.Way(3), ElementsAre(1, 5, 4, 3));
  table.Hears(Tells(2, 2, {1}));
  EXPECT_THAT(table.Way(3), ElementsAre(1, 5, 4, 3));
  table.Neighbours({2});
  EXPECT_THAT(table.Way(3), IsEmpty());
  EXPECT_THAT(table.Reachable(), ElementsAre(Id(2)));
}

TEST(RouteTableTest, TakesSmallerIdsWhereWaysAreEquallyLong) {
  Table table;
  table.Neighbours({3, 2});
  table.Hears(Tells(3, 1, {1, 4}));
  table.Hears(Tells(4, 1, {2, 3}));
  table.Hears(Tells(2, 1, {1, 4}));
  EXPECT_THAT(table.Way(4), ElementsAre(1, 2, 4));
}

// Why: when one end has noticed that a link is gone, nothing passes there any more.
TEST(RouteTableTest, CountsALinkOnlyWhenBothEndsTellOfIt) {
  Table table;
  table.Neighbours({2});
  table.Hears(Tells(2, 1, {3}));
  table.Hears(Tells(3, 1, {2}));
  EXPECT_THAT(table.Reachable(), IsEmpty());  // 2 does not report its link to us yet.
  table.Hears(Tells(2, 2, {1, 3}));
  EXPECT_THAT(table.Way(3), ElementsAre(1, 2, 3));
}

TEST(RouteTableTest, BelievesTheNewerAndAnswersTheOlder) {
  Table table;
  table.Neighbours({2});
  EXPECT_EQ(table.Hears(Tells(2, 5, {1})), Verdict::kNewer);
  EXPECT_EQ(table.Hears(Tells(2, 5, {1})), Verdict::kKnown);
  EXPECT_EQ(table.Hears(Tells(2, 4, {})), Verdict::kOlder);
  EXPECT_THAT(table.Way(2), ElementsAre(1, 2));
  Advertisement restarted = Tells(2, 5, {});
  restarted.incarnation = 8;  // The same number by chance: one of the two must win everywhere.
  EXPECT_EQ(table.Hears(restarted), Verdict::kNewer);
  EXPECT_EQ(table.Hears(Tells(2, 5, {1})), Verdict::kOlder);
}

// Why: a daemon that was restarted counts from 1, and others remember its earlier life.
TEST(RouteTableTest, NumbersItsOwnBeyondAnEarlierLife) {
  Table table;
  table.Neighbours({2});
  EXPECT_EQ(table.Hears(Tells(1, 500, {9})), Verdict::kOwn);
  EXPECT_EQ(table.Own().number, 501u);
  EXPECT_THAT(table.Own().neighbours, ElementsAre(Id(2)));
  EXPECT_EQ(table.Hears(table.Own()), Verdict::kKnown);  // It has come round a ring.
  EXPECT_EQ(table.Hears(Tells(1, 500, {9})), Verdict::kOlder);
  EXPECT_EQ(table.Hears(Tells(1, wire::kAdvertisementMax, {})), Verdict::kRefused);
}

// Why: a node's report may arrive before the links that lead to it; but a node out of reach for
// long has no use.
TEST(RouteTableTest, ForgetsWhoIsOutOfReachForLong) {
  Table table;
  table.Neighbours({2});
  table.Hears(Tells(4, 1, {3}));
  table.Hears(Tells(3, 1, {2, 4}));
  table.Hears(Tells(2, 1, {1, 3}));
  EXPECT_THAT(table.Way(4), ElementsAre(1, 2, 3, 4));
  table.Hears(Tells(2, 2, {1}));
  table.now += RouteTable::kForgetNs - 1;
  table.ForgetUnreachable(table.now);
  table.Hears(Tells(2, 3, {1, 3}));
  EXPECT_THAT(table.Way(4), ElementsAre(1, 2, 3, 4));  // Back in time.
  table.Hears(Tells(2, 4, {1}));
  table.now += RouteTable::kForgetNs;
  table.ForgetUnreachable(table.now);
  EXPECT_EQ(table.Find(Id(3)), nullptr);
  EXPECT_EQ(table.Find(Id(4)), nullptr);
  EXPECT_NE(table.Find(Id(2)), nullptr);
}

TEST(RouteTableTest, HoldsNoMoreNodesThanItsLimit) {
  Table table;
  table.Neighbours({2});
  table.Hears(Tells(2, 1, {1}));
  for (int node = 3; node <= 1024; ++node) {
    EXPECT_EQ(table.Hears(Tells(node, 1, {})), Verdict::kNewer);
  }
  ASSERT_EQ(table.All().size(), RouteTable::kNodesMax);
  EXPECT_EQ(table.Hears(Tells(2000, 1, {})), Verdict::kNewer);  // For a node out of reach.
  EXPECT_EQ(table.All().size(), RouteTable::kNodesMax);
  EXPECT_THAT(table.Way(2), ElementsAre(1, 2));
}

TEST(RouteTableTest, RefusesANodeMoreWhenAllAreInReach) {
  Table table;
  table.Neighbours({2});
  for (int node = 2; node <= 1024; ++node) table.Hears(Tells(node, 1, {node - 1, node + 1}));
  EXPECT_EQ(table.Reachable().size(), 1023u);
  EXPECT_EQ(table.Hears(Tells(2000, 1, {})), Verdict::kRefused);
  EXPECT_EQ(table.Way(33).size(), wire::kRouteNodesMax);
  EXPECT_THAT(table.Way(34), IsEmpty());  // Too long a route.
}

TEST(RouteTableTest, TellsOfNoMoreNeighboursThanTheLimit) {
  Table table;
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 2);
  table.Neighbours(numbers);
  EXPECT_EQ(table.Own().neighbours.size(), wire::kNeighboursMax);
  EXPECT_TRUE(Decode(Encode(table.Own())).has_value());
}

TEST(RouteTableTest, EncodesWhatItDecodes) {
  const Advertisement advertisement = Tells(3, 9, {1, 2, 700});
  EXPECT_EQ(Decode(Encode(advertisement)), advertisement);
  EXPECT_EQ(Decode(Encode(Tells(3, 1, {}))), Tells(3, 1, {}));
}

// Why: another host wrote these bytes.
TEST(RouteTableTest, DecodesNothingThatBreaksABound) {
  const std::vector<std::byte> fine = Encode(Tells(3, 9, {1, 2}));
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
  // Twice the same, out of order, itself.
  EXPECT_TRUE(refuses(put(sizeof(Head), Id(2).bytes)));
  EXPECT_TRUE(refuses(put(sizeof(Head), Id(5).bytes)));
  EXPECT_TRUE(refuses(put(sizeof(Head) + 16, Id(3).bytes)));
  std::vector<std::byte> name = fine;
  std::memcpy(name.data() + offsetof(Head, node_name), "evil\n\xff", 7);
  EXPECT_EQ(Decode(name)->name, "evil??");
}

// Many tables that exchange messages over queues, served in random order.
struct Network {
  struct Message {
    int from;
    int to;
    Advertisement told;
  };
  Network(int nodes, unsigned seed) : random(seed) {
    for (int i = 0; i < nodes; ++i) tables.emplace_back(Id(i), seed, "n");
  }
  int Any() { return static_cast<int>(random() % tables.size()); }
  RouteTable& Of(int node) { return tables[static_cast<std::size_t>(node)]; }
  std::vector<int> Neighbours(int of) const {
    std::vector<int> found;
    for (const auto& [a, b] : links) {
      if (a == of) found.push_back(b);
    }
    return found;
  }
  void Tell(int from, int to, const Advertisement& told) {
    queues[{from, to}].push_back({from, to, told});
  }
  void Flood(int from, const Advertisement& told, int but) {
    for (const int to : Neighbours(from)) {
      if (to != but) Tell(from, to, told);
    }
  }
  void NeighboursChanged(int node) {
    std::vector<NodeId> ids;
    for (const int other : Neighbours(node)) ids.push_back(Id(other));
    Of(node).SetNeighbours(ids);
    Flood(node, Of(node).Own(), -1);
  }
  // A link comes, or goes with all that was under way on it.
  void Flip(int a, int b) {
    const bool up = links.insert({a, b}).second;
    for (const auto& way : {std::pair(a, b), std::pair(b, a)}) {
      if (up) links.insert(way);
      if (!up) links.erase(way), queues.erase(way);
    }
    NeighboursChanged(a);
    NeighboursChanged(b);
    if (!up) return;
    for (const Advertisement* const told : Of(a).All()) Tell(a, b, *told);
    for (const Advertisement* const told : Of(b).All()) Tell(b, a, *told);
  }
  // False: nothing is under way.
  bool DeliverOne() {
    std::erase_if(queues, [](const auto& entry) { return entry.second.empty(); });
    if (queues.empty()) return false;
    auto chosen = queues.begin();
    std::advance(chosen, random() % queues.size());
    const Message message = chosen->second.front();
    chosen->second.pop_front();
    RouteTable& table = Of(message.to);
    switch (table.Take(message.told)) {
      case Verdict::kNewer: Flood(message.to, message.told, message.from); break;
      case Verdict::kOwn: Flood(message.to, table.Own(), -1); break;
      case Verdict::kOlder: Tell(message.to, message.from, *table.Find(message.told.origin)); break;
      case Verdict::kKnown:
      case Verdict::kRefused: break;
    }
    return true;
  }
  // To all reachable nodes, in the true graph.
  std::map<int, std::size_t> HopsFrom(int from) const {
    std::map<int, std::size_t> hops = {{from, 0}};
    std::deque<int> ring = {from};
    for (; !ring.empty(); ring.pop_front()) {
      for (const int to : Neighbours(ring.front())) {
        if (hops.try_emplace(to, hops[ring.front()] + 1).second) ring.push_back(to);
      }
    }
    return hops;
  }

  std::minstd_rand random;
  std::vector<RouteTable> tables;
  std::set<std::pair<int, int>> links;  // Both ways.
  std::map<std::pair<int, int>, std::deque<Message>> queues;
};

// Why: flooding must end with the same graph everywhere, in whatever order messages come.
// How: links come and go at random while advertisements are under way; in the end every node finds
// routes as long as a search of the true graph does.
TEST(RouteTableTest, AllNodesAgreeInTheEndWhateverTheOrder) {
  constexpr int kNodes = 12;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    Network network(kNodes, seed);
    for (int i = 0; i < 200; ++i) {
      const int a = network.Any(), b = network.Any();
      if (a != b) network.Flip(a, b);
      for (int n = network.Any(); n > 0; --n) network.DeliverOne();
    }
    while (network.DeliverOne()) {
    }
    for (int from = 0; from < kNodes; ++from) {
      RouteTable& table = network.Of(from);
      table.FindWays(1);
      const std::map<int, std::size_t> hops = network.HopsFrom(from);
      EXPECT_EQ(table.Reachable().size() + 1, hops.size()) << "seed " << seed;
      for (const auto& [to, count] : hops) {
        const std::size_t nodes = to == from ? 0 : count + 1;
        EXPECT_EQ(table.WayTo(Id(to)).size(), nodes) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace mlxcomm::fabric::route_table_test

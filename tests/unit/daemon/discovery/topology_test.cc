// What cables form, and whether the order of nodes depends only on the cables.
#include "daemon/discovery/topology.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::discovery::topology_test {
namespace {

using testing::Each;
using testing::ElementsAre;

// Nodes "0", "1", ... whose cables have interfaces of their own.
class Plugs {
 public:
  explicit Plugs(std::size_t nodes) {
    for (std::size_t i = 0; i < nodes; ++i) {
      std::string name = std::to_string(i);
      if (nodes > 10 && i < 10) name.insert(0, "0");
      wiring_.nodes.push_back({"id-" + name, name});
    }
  }
  Plugs& Cable(std::size_t a, std::size_t b) {
    const std::string interface = "en" + std::to_string(++interfaces_);
    wiring_.cables.push_back({a, interface, b, interface});
    return *this;
  }
  Plugs& Line() {
    for (std::size_t i = 0; i + 1 < wiring_.nodes.size(); ++i) Cable(i, i + 1);
    return *this;
  }
  Plugs& Mesh() {
    for (std::size_t a = 0; a < wiring_.nodes.size(); ++a) {
      for (std::size_t b = a + 1; b < wiring_.nodes.size(); ++b) Cable(a, b);
    }
    return *this;
  }
  // Each is linked to each other through one interface.
  Plugs& Switch(const std::vector<std::size_t>& nodes, const std::string& interface = "lan") {
    for (std::size_t a = 0; a < nodes.size(); ++a) {
      for (std::size_t b = a + 1; b < nodes.size(); ++b) {
        wiring_.cables.push_back({nodes[a], interface, nodes[b], interface});
      }
    }
    return *this;
  }
  Plugs& Switch() {
    std::vector<std::size_t> all(wiring_.nodes.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return Switch(all);
  }
  Topology Find() const { return FindTopology(wiring_); }
  Wiring& wiring() { return wiring_; }

 private:
  Wiring wiring_;
  int interfaces_ = 0;
};

TEST(TopologyTest, TellsNoneOneAndTwoNodes) {
  EXPECT_TRUE(Plugs(0).Find().ring.empty());
  EXPECT_EQ(Plugs(1).Find().shape, "alone");
  EXPECT_THAT(Plugs(1).Find().ring, ElementsAre(0));
  EXPECT_EQ(Plugs(2).Cable(0, 1).Find().shape, "pair");
  EXPECT_EQ(Plugs(2).Cable(0, 1).Cable(0, 1).Find().shape, "pair");
  EXPECT_EQ(Plugs(2).Find().shape, "other");
  EXPECT_THAT(Plugs(2).Find().ring, ElementsAre(0, 1));
}

TEST(TopologyTest, TellsRingLineMeshAndSwitchApart) {
  for (const std::size_t nodes : {3u, 4u, 8u, 20u}) {
    EXPECT_EQ(Plugs(nodes).Line().Find().shape, "line") << nodes;
    EXPECT_EQ(Plugs(nodes).Line().Cable(nodes - 1, 0).Find().shape, "ring") << nodes;
    EXPECT_EQ(Plugs(nodes).Switch().Find().shape, "switch") << nodes;
    EXPECT_EQ(Plugs(nodes).Mesh().Find().shape, nodes == 3 ? "ring" : "mesh");
  }
}

TEST(TopologyTest, TellsOtherShapes) {
  EXPECT_EQ(Plugs(4).Cable(0, 1).Cable(0, 2).Cable(0, 3).Find().shape, "other");  // A star.
  EXPECT_EQ(Plugs(4).Cable(0, 1).Cable(2, 3).Find().shape, "other");              // In two parts.
  EXPECT_EQ(Plugs(5).Line().Cable(4, 0).Cable(1, 3).Find().shape, "other");
  EXPECT_EQ(Plugs(6).Switch({0, 1, 2}).Switch({3, 4, 5}).Find().shape, "other");
}

// Macs in a ring of cables, all of them in the office's network besides.
TEST(TopologyTest, PutsCablesBeforeASwitch) {
  Plugs plugs(4);
  plugs.Switch().Cable(0, 2).Cable(2, 1).Cable(1, 3).Cable(3, 0);
  const Topology found = plugs.Find();
  EXPECT_EQ(found.shape, "ring");
  EXPECT_TRUE(found.ring_closed);
  EXPECT_THAT(found.ring, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(std::vector(found.switches.begin(), found.switches.begin() + 6), Each(1));
  EXPECT_THAT(std::vector(found.switches.begin() + 6, found.switches.end()), Each(0));
}

TEST(TopologyTest, NumbersSwitches) {
  Plugs plugs(4);
  plugs.Switch({1, 2, 3}, "en5").Cable(0, 1).Switch({0, 1, 2, 3}, "en6");
  const Topology found = plugs.Find();
  EXPECT_THAT(found.switches, ElementsAre(1, 1, 1, 0, 2, 2, 2, 2, 2, 2));
  EXPECT_EQ(found.shape, "switch");
}

TEST(TopologyTest, OrdersALineFromEndToEnd) {
  Plugs plugs(4);
  const Topology found = plugs.Cable(2, 0).Cable(0, 3).Cable(3, 1).Find();
  EXPECT_EQ(found.shape, "line");
  EXPECT_FALSE(found.ring_closed);
  EXPECT_THAT(found.ring, ElementsAre(1, 3, 0, 2));
}

// A cable of a ring is missing, but the switch closes it.
TEST(TopologyTest, ClosesARingOverASwitch) {
  Plugs plugs(4);
  const Topology found = plugs.Cable(2, 0).Cable(0, 3).Cable(3, 1).Switch().Find();
  EXPECT_EQ(found.shape, "line");
  EXPECT_TRUE(found.ring_closed);
}

TEST(TopologyTest, OrdersByNameAndThenById) {
  Plugs plugs(3);
  plugs.Mesh();
  plugs.wiring().nodes = {{"c", "same"}, {"a", "zebra"}, {"b", "same"}};
  EXPECT_THAT(plugs.Find().ring, ElementsAre(2, 0, 1));
}

// Why: nodes see the same cables in different orders, and must report the same; a node that was
// restarted comes last in all lists.
// How: random graphs, in many orders.
TEST(TopologyTest, DependsOnTheCablesAndNotOnTheirOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Plugs plugs(3 + random() % 7);
    const std::size_t nodes = plugs.wiring().nodes.size();
    for (std::size_t a = 0; a < nodes; ++a) {
      for (std::size_t b = a + 1; b < nodes; ++b) {
        if (random() % 3 == 0) plugs.Cable(a, b);
      }
    }
    const Topology first = plugs.Find();
    std::vector<std::string> names;
    for (const std::size_t node : first.ring) names.push_back(plugs.wiring().nodes[node].name);
    ASSERT_EQ(std::set(names.begin(), names.end()).size(), nodes);

    std::vector<std::size_t> moved(nodes);
    std::iota(moved.begin(), moved.end(), std::size_t{0});
    std::shuffle(moved.begin(), moved.end(), random);
    Wiring other;
    other.nodes.resize(nodes);
    for (std::size_t i = 0; i < nodes; ++i) other.nodes[moved[i]] = plugs.wiring().nodes[i];
    for (const Wiring::Cable& cable : plugs.wiring().cables) {
      other.cables.push_back(
          {moved[cable.to], cable.to_interface, moved[cable.from], cable.from_interface});
    }
    std::shuffle(other.cables.begin(), other.cables.end(), random);
    const Topology again = FindTopology(other);
    EXPECT_EQ(again.shape, first.shape);
    EXPECT_EQ(again.ring_closed, first.ring_closed);
    std::vector<std::string> names_again;
    for (const std::size_t node : again.ring) names_again.push_back(other.nodes[node].name);
    EXPECT_EQ(names_again, names);
  }
}

// A graph without a ring, in which an exhaustive search would not end.
TEST(TopologyTest, GivesAnOrderWhereTheSearchIsGivenUp) {
  Plugs plugs(60);
  for (std::size_t a = 0; a < 29; ++a) {
    for (std::size_t b = a + 1; b < 29; ++b) plugs.Cable(a, b).Cable(30 + a, 30 + b);
  }
  plugs.Cable(0, 30).Cable(0, 31).Cable(5, 29).Cable(35, 59);
  const Topology found = plugs.Find();
  EXPECT_EQ(std::set(found.ring.begin(), found.ring.end()).size(), 60u);
}

// Why: status searches each time, and any user may ask for it. A node that only a route leads to
// made the search try everything, for milliseconds of the loop's time, to find no ring.
// How: twelve nodes, each joined to each, and one more beside them: all of its tries would be used.
TEST(TopologyTest, ANodeWithoutCablesCostsNoSearch) {
  Wiring wiring;
  for (std::size_t i = 0; i < 13; ++i) {
    wiring.nodes.push_back({std::to_string(i), "node-" + std::to_string(i)});
    for (std::size_t other = 0; i < 12 && other < i; ++other) {
      const std::string cable = std::to_string(other) + "-" + std::to_string(i);
      wiring.cables.push_back({other, cable, i, cable});
    }
  }
  for (int i = 0; i < 2000; ++i) {
    const Topology found = FindTopology(wiring);
    ASSERT_FALSE(found.ring_closed);
    ASSERT_EQ(found.ring.size(), 13u);
  }
}

}  // namespace
}  // namespace mlxcomm::discovery::topology_test

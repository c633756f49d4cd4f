#include "client/ctl/topology/draw_topology.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::draw_topology_test {
namespace {

using testing::HasSubstr;

// A ring of three with two cables between a and b; the cable from c to a is cut.
v1::TopologyReply Three() {
  return MessageOf<v1::TopologyReply>(
      R"(node: "a" cluster: "c<1>" shape: "line" ring: "1" ring: "2" ring: "3"
         nodes { id: "1" name: "a" state: "up" answered: true }
         nodes { id: "2" name: "b" state: "up" answered: true }
         nodes { id: "3" name: "c & d" state: "up" answered: true }
         cables { from_node: "1" from_interface: "en2" to_node: "2" to_interface: "en3"
                  state: up bytes_per_second_best: 3.2e9 round_trip_ns: 40000 }
         cables { from_node: "2" from_interface: "en5" to_node: "1" to_interface: "en4" state: up }
         cables { from_node: "1" from_interface: "en6" to_node: "3" to_interface: "en7"
                  state: down detail: "pulled" })");
}

std::size_t Count(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST(DrawTopologyTest, DrawsEveryCableWithItsRateAndEnds) {
  const std::string dot = DrawTopology(Three());
  EXPECT_EQ(Count(dot, "tooltip="), 3u);
  EXPECT_EQ(Count(dot, "style=dashed"), 1u);
  EXPECT_EQ(Count(dot, "penwidth=3];"), 2u) << "the ring is not closed, so the third is not in it";
  for (const char* text :
       {"label=\"3.20 GB/s\\n40.0 us\"", "label=\"not measured yet\"", "label=\"en2\"",
        "label=\"en7\", fontcolor=", "label=\"down\"", "en6 - en7 c & d: down, pulled",
        "label=\"c<1>, 3 nodes: line\\nthick: ring order, not closed\\ndashed red: down\\n"
        "rates: at best, in the slower direction\""}) {
    EXPECT_THAT(dot, HasSubstr(text));
  }
}

// Why: lines crossed out their figures, and the figures of two cables overlapped.
TEST(DrawTopologyTest, LinesPassThroughTheirLabelsWhichDoNotOverlap) {
  v1::TopologyReply topology = Three();
  topology.mutable_cables(1)->set_bytes_per_second_best(3.2e9);
  const std::string dot = DrawTopology(topology);
  for (const char* const path : {"\"1\" -- \"label 1\" -- \"label 2\" -- \"label 3\" -- \"2\" [",
                                 "\"1\" -- \"label 4\" -- \"label 5\" -- \"label 6\" -- \"2\" ["}) {
    EXPECT_THAT(dot, HasSubstr(path));
  }
  std::set<std::string> places;
  for (std::size_t at = dot.find("pos="); at != std::string::npos; at = dot.find("pos=", at + 1))
    places.insert(dot.substr(at, dot.find('!', at) - at));
  EXPECT_EQ(places.size(), 3u + 9u);
}

// The name and position of each node: "a pos=...".
std::vector<std::string> Places(const v1::TopologyReply& topology) {
  const std::string dot = DrawTopology(topology);
  std::vector<std::string> places;
  for (const v1::TopologyNode& node : topology.nodes()) {
    const std::size_t begin = dot.find("\n  \"" + node.id() + "\" [label=");
    const std::size_t place = dot.find("pos=", begin);
    places.push_back(node.name() + " " + dot.substr(place, dot.find('!', place) - place));
  }
  std::sort(places.begin(), places.end());
  return places;
}

// Why: a changed ring moved the nodes in the picture.
TEST(DrawTopologyTest, KeepsNodesInPlaceWhenACableIsGone) {
  v1::TopologyReply closed = Three();
  closed.set_shape("ring");
  closed.set_ring_closed(true);
  closed.mutable_cables(2)->set_state(v1::RailState::up);
  v1::TopologyReply cut = Three();
  cut.clear_ring();
  for (const char* id : {"3", "1", "2"}) cut.add_ring(id);
  const std::vector<std::string> places = Places(closed);
  EXPECT_EQ(Places(cut), places);
  cut.mutable_cables()->RemoveLast();
  cut.mutable_nodes(2)->set_state("lost");
  cut.clear_ring();
  cut.mutable_nodes()->SwapElements(0, 2);
  EXPECT_EQ(Places(cut), places);
  EXPECT_EQ(std::set(places.begin(), places.end()).size(), 3u);
}

TEST(DrawTopologyTest, SortsNumbersInNamesNumerically) {
  v1::TopologyReply topology;
  for (const char* name : {"mac-1", "mac-10", "mac-2"}) {
    v1::TopologyNode& node = *topology.add_nodes();
    node.set_id(name);
    node.set_name(name);
  }
  const std::string dot = DrawTopology(topology);
  EXPECT_LT(dot.find("\"mac-1\" ["), dot.find("\"mac-2\" ["));
  EXPECT_LT(dot.find("\"mac-2\" ["), dot.find("\"mac-10\" ["));
}

// Why: names come from other machines.
TEST(DrawTopologyTest, QuotesNames) {
  v1::TopologyReply topology = Three();
  topology.mutable_nodes(0)->set_name("a\"]; b\\");
  EXPECT_THAT(DrawTopology(topology), HasSubstr("label=\"a\\\"]; b\\\\\\nup\""));
  topology.mutable_nodes(0)->set_name("a\nb");
  topology.mutable_cables(0)->set_from_interface(std::string(100, 'x'));
  EXPECT_THAT(DrawTopology(topology), HasSubstr("label=\"a?b\\nup\""));
  EXPECT_THAT(DrawTopology(topology), HasSubstr("label=\"xxxxxxxx..xxxxxxxxxxxxxx\""));
}

TEST(DrawTopologyTest, MarksThisNodeAndLostNodes) {
  v1::TopologyReply topology = Three();
  topology.mutable_nodes(2)->set_state("lost");
  const std::string dot = DrawTopology(topology);
  EXPECT_THAT(dot, HasSubstr("label=\"a\\nup, this node\", color=\"#0a5bd0\", penwidth=3"));
  EXPECT_THAT(dot, HasSubstr("label=\"c & d\\nlost\", color=\"#c62828\""));
  topology.mutable_nodes(1)->set_answered(false);  // Its cable is cut, and it is not given up yet.
  EXPECT_THAT(DrawTopology(topology),
              HasSubstr("label=\"b\\ndoes not answer\", color=\"#c62828\""));
}

TEST(DrawTopologyTest, DrawsASwitchInTheMiddleWithAPortForEachInterface) {
  v1::TopologyReply topology = Three();
  topology.clear_cables();
  for (const auto& [from, to] : {std::pair{"1", "2"}, {"2", "3"}, {"1", "3"}}) {
    v1::TopologyCable& cable = *topology.add_cables();
    cable.set_from_node(from);
    cable.set_from_interface("en0");
    cable.set_to_node(to);
    Add(R"(to_interface: "en0" state: up switch_number: 1 round_trip_ns: 40000)", cable);
  }
  const std::string dot = DrawTopology(topology);
  EXPECT_EQ(Count(dot, " -- \"switch 1\" ["), 3u);
  EXPECT_EQ(Count(dot, "label=\"40.0 us\""), 2u) << "along the ring, which is not closed";
}

TEST(DrawTopologyTest, DrawsASingleNode) {
  v1::TopologyReply topology;
  topology.set_shape("alone");
  topology.add_nodes()->set_name("a");
  EXPECT_THAT(DrawTopology(topology), HasSubstr(", 1 node: alone\""));
  EXPECT_THAT(DrawTopology({}), HasSubstr("graph topology {"));
}

}  // namespace
}  // namespace mlxcomm::ctl::draw_topology_test

#include "client/ctl/draw_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/text_format.h>

namespace mlxcomm::ctl::draw_topology_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A ring of three, twice cabled between a and b, with the cable from c to a cut.
v1::TopologyReply Three() {
  v1::TopologyReply topology;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(node: "a" cluster: "c<1>" shape: "line" ring: "1" ring: "2" ring: "3"
         nodes { id: "1" name: "a" state: "up" answered: true }
         nodes { id: "2" name: "b" state: "up" answered: true }
         nodes { id: "3" name: "c & d" state: "up" answered: true }
         cables { from_node: "1" from_interface: "en2" to_node: "2" to_interface: "en3"
                  state: up bytes_per_second_best: 3.2e9 round_trip_ns: 40000 }
         cables { from_node: "2" from_interface: "en5" to_node: "1" to_interface: "en4" state: up }
         cables { from_node: "1" from_interface: "en6" to_node: "3" to_interface: "en7"
                  state: down detail: "pulled" })",
      &topology));
  return topology;
}

std::size_t Count(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST(DrawTopologyTest, DrawsEveryCableWithItsRateAndItsEnds) {
  const std::string svg = DrawTopologySvg(Three());
  EXPECT_EQ(Count(svg, "<path class=\"cable\""), 2u);
  EXPECT_EQ(Count(svg, "<path class=\"down\""), 1u);
  EXPECT_EQ(Count(svg, "<line class=\"ring\""), 2u);  // It is not closed.
  for (const char* text : {">3.20 GB/s, 40.0 us<", ">not measured yet<", ">en2<", ">en7<", ">down<",
                           "en6 - en7 c &amp; d: down, pulled"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

// Why: two cables of a pair that are one line in the picture look like one cable.
TEST(DrawTopologyTest, KeepsCablesOfAPairApartWhicheverEndComesFirst) {
  const std::string svg = DrawTopologySvg(Three());
  const std::size_t first = svg.find(" Q", svg.find("class=\"cable\""));
  const std::size_t second = svg.find(" Q", svg.find("class=\"cable\"", first));
  EXPECT_NE(svg.substr(first, 14), svg.substr(second, 14));
}

// Why: of cables side by side that go up and down, labels would lie on each other.
TEST(DrawTopologyTest, LaysNoLabelOnAnother) {
  v1::TopologyReply topology = Three();
  for (int i = 0; i < 3; ++i) {
    v1::TopologyCable cable = topology.cables(2);
    cable.set_from_interface("eth" + std::to_string(i));
    *topology.add_cables() = cable;
  }
  const std::string svg = DrawTopologySvg(topology);
  struct Box {
    double x = 0, y = 0, width = 0;
  };
  std::vector<Box> boxes;
  const std::string begin = "<rect class=\"label\" opacity=\"0.85\" rx=\"4\"";
  for (std::size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
    Box box;
    ASSERT_EQ(std::sscanf(svg.c_str() + at + begin.size(), " x=\"%lf\" y=\"%lf\" width=\"%lf\"",
                          &box.x, &box.y, &box.width),
              3);
    for (const Box& other : boxes) {
      const bool beside = box.x + box.width <= other.x || other.x + other.width <= box.x;
      EXPECT_TRUE(beside || std::abs(box.y - other.y) >= 16.9) << box.x << " " << box.y;
    }
    boxes.push_back(box);
  }
  EXPECT_EQ(boxes.size(), 18u);
}

// Why: names come from other machines.
TEST(DrawTopologyTest, LetsNoNameBecomeMarkup) {
  v1::TopologyReply topology = Three();
  topology.mutable_nodes(0)->set_name("</text><script>");
  const std::string svg = DrawTopologySvg(topology);
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("c&lt;1&gt;, 3 nodes: line"));
  topology.mutable_nodes(0)->set_name("a\"]; b");
  EXPECT_THAT(DrawTopologyDot(topology), HasSubstr("label=\"a\\\"]; b\""));
}

TEST(DrawTopologyTest, MarksThisNodeAndThoseThatAreLost) {
  v1::TopologyReply topology = Three();
  topology.mutable_nodes(2)->set_state("lost");
  const std::string svg = DrawTopologySvg(topology);
  EXPECT_EQ(Count(svg, "\"node own\""), 1u);
  EXPECT_EQ(Count(svg, "\"node gone\""), 1u);
  topology.mutable_nodes(1)->set_answered(false);  // Its cable is cut, and it is not given up yet.
  EXPECT_THAT(DrawTopologySvg(topology), HasSubstr(">does not answer<"));
}

TEST(DrawTopologyTest, DrawsASwitchInTheMiddleWithAPortForEachInterface) {
  v1::TopologyReply topology = Three();
  topology.clear_cables();
  for (const auto& [from, to] : {std::pair{"1", "2"}, {"2", "3"}, {"1", "3"}}) {
    v1::TopologyCable& cable = *topology.add_cables();
    cable.set_from_node(from);
    cable.set_from_interface("en0");
    cable.set_to_node(to);
    cable.set_to_interface("en0");
    cable.set_state(v1::RailState::up);
    cable.set_switch_number(1);
    cable.set_round_trip_ns(40000);
  }
  const std::string svg = DrawTopologySvg(topology);
  EXPECT_EQ(Count(svg, "<path class=\"cable\""), 3u);
  EXPECT_THAT(svg, HasSubstr(">switch 1<"));
  EXPECT_EQ(Count(svg, ">40.0 us<"), 2u);  // On the ring, which is not closed.
  EXPECT_EQ(Count(DrawTopologyDot(topology), " -- \"switch 1\""), 3u);
}

TEST(DrawTopologyTest, DrawsOneNodeAlone) {
  v1::TopologyReply topology;
  topology.set_shape("alone");
  topology.add_nodes()->set_name("a");
  EXPECT_THAT(DrawTopologySvg(topology), HasSubstr(", 1 node: alone<"));
  EXPECT_THAT(DrawTopologySvg({}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace mlxcomm::ctl::draw_topology_test

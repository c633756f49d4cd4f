#include "client/ctl/render_topology.h"

#include <gtest/gtest.h>

#include <google/protobuf/text_format.h>

namespace mlxcomm::ctl {
namespace {

TEST(RenderTopologyTest, TellsTheRingTheNodesAndTheCables) {
  v1::TopologyReply topology;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(node: "a" cluster: "c" shape: "pair" ring: "1" ring: "2" ring_closed: true
         nodes { id: "1" name: "a" state: "up" answered: true version: "1" }
         nodes { id: "2" name: "bb" state: "up" }
         cables { from_node: "1" from_interface: "en2" to_node: "2" to_interface: "en3"
                  state: "up" bytes_per_second_best: 3.2e9 round_trip_ns: 40000 }
         cables { from_node: "2" from_interface: "en4" to_node: "1" to_interface: "en10"
                  state: "down" detail: "no answer" switch_number: 1 })",
      &topology));
  EXPECT_EQ(RenderTopology(topology, false),
            "cluster c, 2 nodes: pair\n"
            "ring   a - bb - a\n"
            "nodes\n"
            "  a  up  mlxcommd 1  (this node)\n"
            "  bb  up  (did not answer in time)\n"
            "cables\n"
            "  a en10 - en4 bb  down  no answer, through switch 1\n"
            "  a en2  - en3 bb  up  3.20 GB/s, 40.0 us\n");
}

}  // namespace
}  // namespace mlxcomm::ctl

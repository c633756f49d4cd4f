#include "client/ctl/topology/render_topology.h"

#include <gtest/gtest.h>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::render_topology_test {
namespace {

TEST(RenderTopologyTest, ShowsTheRingTheNodesAndTheCables) {
  v1::TopologyReply topology = MessageOf<v1::TopologyReply>(
      R"(node: "a" cluster: "c" shape: "pair" ring: "1" ring: "2" ring_closed: true
         nodes { id: "1" name: "a" state: "up" answered: true version: "1" }
         nodes { id: "2" name: "bb" state: "up" }
         cables { from_node: "1" from_interface: "en2" to_node: "2" to_interface: "en3"
                  state: up bytes_per_second_best: 3.2e9 round_trip_ns: 40000 }
         cables { from_node: "2" from_interface: "en4" to_node: "1" to_interface: "en10"
                  state: down detail: "no answer" switch_number: 1 })");
  EXPECT_EQ(RenderTopology(topology, false),
            "cluster c, 2 nodes: pair\n"
            "ring   a - bb - a\n"
            "nodes\n"
            "  a  up  mlxcommd 1  (this node)\n"
            "  bb  up  (did not answer in time)\n"
            "cables (rates: at best, in the slower direction)\n"
            "  a en10 - en4 bb  down  no answer, through switch 1\n"
            "  a en2  - en3 bb  up  3.20 GB/s, 40.0 us\n");
}

// Rails are not shown if there are only TCP connections, as on every network card.
TEST(RenderTopologyTest, ShowsTheRailsOnACable) {
  v1::TopologyReply topology = MessageOf<v1::TopologyReply>(
      R"(node: "a" cluster: "c" shape: "pair" ring: "1" ring: "2"
         nodes { id: "1" name: "a" state: "up" answered: true }
         nodes { id: "2" name: "b" state: "up" answered: true }
         cables { from_node: "1" from_interface: "en1" to_node: "2" to_interface: "en1"
                  state: up round_trip_ns: 40000 rails { transport: tcp state: up } }
         cables { from_node: "1" from_interface: "en2" to_node: "2" to_interface: "en2"
                  state: up bytes_per_second_best: 5e9
                  rails { transport: tcp state: up bytes_per_second_best: 3e9 }
                  rails { transport: rdma state: up bytes_per_second_best: 5e9 } }
         cables { from_node: "1" from_interface: "en3" to_node: "2" to_interface: "en3" state: up
                  rails { transport: tcp state: up }
                  rails { transport: rdma state: down detail: "rdma_en3: port 1 is down" } })");
  const std::string text = RenderTopology(topology, false);
  EXPECT_EQ(text.substr(text.find("cables")),
            "cables (rates: at best, in the slower direction)\n"
            "  a en1 - en1 b  up  40.0 us\n"
            "  a en2 - en2 b  up  5.00 GB/s  (tcp 3.00 GB/s, rdma 5.00 GB/s)\n"
            "  a en3 - en3 b  up  not measured yet  (tcp, no rdma: rdma_en3: port 1 is down)\n");
}

}  // namespace
}  // namespace mlxcomm::ctl::render_topology_test

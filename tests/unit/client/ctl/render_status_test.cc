#include "client/ctl/render_status.h"

#include <gtest/gtest.h>

#include <google/protobuf/text_format.h>

namespace mlxcomm::ctl {
namespace {

TEST(RenderStatusTest, ReadsLikeASummary) {
  v1::StatusReply status;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(node: "a" cluster: "c"
         nodes { name: "a" version: "1" pid: 7 uptime_ms: 65000 answered: true state: "up"
                 clients: 1 memory_bytes: 6291456
                 links { peer: "b" state: "up"
                         rails { transport: "tcp" local_address: "l" remote_address: "r"
                                 state: "up" sent_bytes_per_second: 1572864 round_trip_ns: 90000 } } }
         jobs { name: "train" size: 3 state: "running"
                ranks { rank: 0 node: "a" pid: 8 program: "python" operations_done: 5
                        operation: "barrier, operation 5" operation_age_ms: 3200 }
                waits { waiting: 0 awaited: 2 operation: "barrier, operation 5" age_ms: 3200 }
                waits { waiting: 1 awaited: 2 operation: "barrier, operation 5" age_ms: 100 } })",
      &status));
  EXPECT_EQ(RenderStatus(status, /*colours=*/false),
            "cluster c, 1 node\n"
            "  a  up  mlxcommd 1, pid 7, up 1 min 5 s, 1 client, 6.0 MiB  (this node)\n"
            "    to b  up\n"
            "      tcp l - r  up  out 1.5 MiB/s, in 0 B/s, round trip 90 us\n"
            "jobs\n"
            "  train  running  1 of 3 ranks\n"
            "    rank 0  a, pid 8 (python)  5 operations done, in barrier, operation 5 for 3.2 s\n"
            "    ranks 0, 1 wait for rank 2 in barrier, operation 5 for 3.2 s\n"
            "health: all is well\n");
}

TEST(RenderStatusTest, HealthNamesWhatIsWrongAndWhatToDo) {
  v1::StatusReply status;
  v1::NodeStatus& node = *status.add_nodes();
  node.set_name("a");
  node.set_answered(true);
  v1::LinkStatus& link = *node.add_links();
  link.set_peer("b");
  link.set_state("grace");
  EXPECT_NE(RenderStatus(status, false).find("health: link a to b is grace: is mlxcommd running"),
            std::string::npos);
}

}  // namespace
}  // namespace mlxcomm::ctl

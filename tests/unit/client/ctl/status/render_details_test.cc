#include "client/ctl/status/render_status.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::render_details_test {
namespace {

TEST(RenderDetailsTest, ReadsLikeASummary) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c"
         nodes { name: "a" version: "1" pid: 7 uptime_ms: 65000 answered: true state: "up"
                 clients: 1 memory_bytes: 6291456
                 links { peer: "b" state: up
                         rails { transport: tcp local_address: "l" remote_address: "r"
                                 local_interface: "en2" remote_interface: "en5"
                                 state: up sent_bytes_per_second: 1572864 round_trip_ns: 90000
                                 delivery_bytes_per_second: 2097152 sent_bytes: 4096
                                 delivery_bytes_per_second_best: 3145728 }
                         rails { transport: tcp remote_address: "10.0.0.2:7" state: down
                                 local_interface: "en3" remote_interface: "en4"
                                 detail: "no answer in time" }
                         rails { transport: tcp local_address: "127.0.0.1:5" state: up
                                 remote_address: "127.0.0.2:6" local_interface: "127.0.0.1"
                                 remote_interface: "127.0.0.2" } } }
         jobs { name: "train" size: 3 state: "running"
                ranks { rank: 0 node: "a" pid: 8 program: "python" operations_done: 5 operations_met: 3
                        operation: "barrier, operation 5" operation_age_ms: 3200 }
                waits { waiting: 0 awaited: 2 operation: "barrier, operation 5" age_ms: 3200 }
                waits { waiting: 1 awaited: 2 operation: "barrier, operation 5" age_ms: 100 } })");
  EXPECT_EQ(
      RenderStatusDetails(status, /*colours=*/false),
      "cluster c, 1 node\n"
      "  a  up  mlxcommd 1, pid 7, up 1 min 5 s, 1 client, 6.0 MiB  (this node)\n"
      "    to b  up\n"
      "      tcp en2 l - en5 r  up  out 1.57 MB/s, in 0 B/s, has carried 2.10 MB/s, "
      "at best 3.15 MB/s, round trip 90.0 us, 4.0 KiB sent, 0 B received\n"
      "      tcp en3 - en4 10.0.0.2:7  down  no answer in time\n"
      "      tcp 127.0.0.1:5 - 127.0.0.2:6  up  out 0 B/s, in 0 B/s, 0 B sent, 0 B received\n"
      "jobs\n"
      "  train  running  1 of 3 ranks\n"
      "    rank 0  a, pid 8 (python)  5 operations done, 3 of them between the ranks directly, "
      "in barrier, operation 5 for 3.2 s\n"
      "    ranks 0, 1 wait for rank 2 in barrier, operation 5 for 3.2 s\n"
      "health: link a to b is slower than it could be: en3 is down: check its cable at both "
      "ends\n");
}

// Why: results that are copied cost time in every operation, and nothing else would show it.
TEST(RenderDetailsTest, ReportsCopiedResultsAndTheirCostOncePerJob) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c" nodes { name: "a" version: "1" answered: true state: "up" }
         jobs { name: "train" size: 3 state: "running"
                ranks { rank: 0 node: "a" pid: 8 copied_results: 3 copied_result_bytes: 1048576
                        copied_result_ns: 3000000000 }
                ranks { rank: 1 node: "a" pid: 9 copied_results: 3 copied_result_bytes: 1048576
                        copied_result_ns: 1000000000 }
                ranks { rank: 2 node: "a" pid: 10 } })");
  EXPECT_THAT(RenderStatusDetails(status, /*colours=*/false),
              testing::HasSubstr("    results are copied out of shared memory on ranks 0, 1: "
                                 "6 results, 2.0 MiB, 2.0 s a rank so far"));
}

// Why: users want to see that RDMA is used, or, without alarm because TCP still works, why it is
// not.
TEST(RenderDetailsTest, ShowsRdmaRailsAndTheirUseOfDevices) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c"
         nodes { name: "a" version: "1" answered: true state: "up"
                 links { peer: "b" state: up
                         rails { transport: tcp local_address: "l" remote_address: "r" state: up }
                         rails { transport: rdma state: up local_interface: "en2" remote_interface: "en3"
                                 local_address: "rdma_en2 fe80::1 queue pair 7" security: "plain"
                                 remote_address: "fe80::2 queue pair 9"
                                 device: "rdma_en2" service: "UC" lost_messages: 2 }
                         rails { transport: rdma state: down local_interface: "en4"
                                 remote_interface: "en5" detail: "rdma_en4: port 1 is down"
                                 reason: port_down } }
                 transports { transport: rdma devices { name: "rdma_en2" active: true state: "active"
                                        uses { name: "queue pair" used: 1 most: 10 }
                                        uses { name: "memory region" used: 1 most: 100 } }
                              devices { name: "rdma_en4" state: "port 1 is down" }
                              devices { name: "rdma_en5" active: true busy_ms: 12000 } } } )");
  EXPECT_EQ(
      RenderStatusDetails(status, /*colours=*/false),
      "cluster c, 1 node\n"
      "  a  up  mlxcommd 1, pid 0, up 0 ms, 0 clients, 0 B  (this node)\n"
      "    rdma device rdma_en2  1 of 10 queue pairs, 1 of 100 memory regions\n"
      "    rdma device rdma_en5  its driver has not answered for 12.0 s\n"
      "    to b  up\n"
      "      tcp l - r  up  out 0 B/s, in 0 B/s, 0 B sent, 0 B received\n"
      "      rdma en2 rdma_en2 fe80::1 queue pair 7 - en3 fe80::2 queue pair 9  up  UC  plain  "
      "out 0 B/s, in 0 B/s, 0 B sent, 0 B received, 2 messages lost and resent\n"
      "      rdma en4 - en5  down  rdma_en4: port 1 is down (mlxcommctl doctor says how to fix "
      "it)\n"
      "no jobs\n"
      "health: all is well\n");
}

// Why: a user who plugs in a cable and sees no link needs to know whether a neighbour is heard
// there.
TEST(RenderDetailsTest, ShowsDiscoveryInterfacesAndUnlinkedNeighbours) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c"
         nodes { name: "a" version: "1" answered: true state: "up"
                 links { peer: "b" peer_id: "b1" state: up }
                 discovery {
                   interfaces { name: "en1" detail: "down, or nothing is plugged in" }
                   interfaces { name: "en2" used: true }
                   interfaces { name: "en3" used: true detail: "cannot send on en3: No route to host" }
                   interfaces { name: "en4" detail: "down, or nothing is plugged in" }
                   interfaces { name: "lo0" reason: loopback detail: "loopback" }
                   interfaces { name: "utun0" reason: unless_named
                                detail: "a tunnel; name it in discovery { interfaces } to use it" }
                   neighbours { id: "b1" name: "b" local_interface: "en2" state: "heard" }
                   neighbours { id: "d1" name: "d" local_interface: "en3" remote_interface: "en5"
                                address: "[fe80::2%en3]:7470" heard_ms_ago: 700 state: "heard" }
                   foreign: 1 } } )");
  EXPECT_EQ(
      RenderStatusDetails(status, /*colours=*/false),
      "cluster c, 1 node\n"
      "  a  up  mlxcommd 1, pid 0, up 0 ms, 0 clients, 0 B  (this node)\n"
      "    looks for neighbours on en2, en3 (cannot send on en3: No route to host); not on en1, "
      "en4 (down, or nothing is plugged in); has heard 1 hello of other clusters or keys\n"
      "      d  heard on en3 700 ms ago, not linked  its en5 [fe80::2%en3]:7470\n"
      "    to b  up\n"
      "no jobs\n"
      "health: node a hears d on en3, but is not linked to it: mlxcommctl doctor says more\n");
  status.mutable_nodes(0)->mutable_discovery()->clear_neighbours();
  EXPECT_THAT(RenderStatusDetails(status, false),
              testing::HasSubstr("health: node a hears only other clusters"));
  status.mutable_nodes(0)->clear_discovery();
  EXPECT_THAT(RenderStatusDetails(status, false),
              testing::Not(testing::HasSubstr("looks for neighbours")));
}

// Why: a Mac is delivered in that state, all seems to work, and nothing shows the cost.
TEST(RenderDetailsTest, ReportsTheCostOfTheThunderboltBridgeInOneLine) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c"
         nodes { name: "a" version: "1" answered: true state: "up"
                 discovery { interfaces { name: "bridge0" used: true }
                   interfaces { name: "en2" reason: bridge_member detail: "a member of a bridge" }
                   interfaces { name: "en3" reason: bridge_member detail: "a member of a bridge" } } })");
  const std::string line =
      "    Thunderbolt Bridge (macOS's default) has en2, en3: no RDMA, one path for all cables, "
      "encryption costs speed, a ring of cables floods it (mlxcommctl doctor says how to fix it)\n";
  EXPECT_NE(RenderStatusDetails(status, /*colours=*/false).find(line), std::string::npos)
      << RenderStatusDetails(status, false);
  for (v1::DiscoveryInterface& port :
       *status.mutable_nodes(0)->mutable_discovery()->mutable_interfaces()) {
    port.set_name("enp3s" + port.name());  // On Linux a user has made the bridge.
  }
  EXPECT_EQ(RenderStatusDetails(status, false).find("Thunderbolt Bridge"), std::string::npos);
}

// Why: one cut cable takes circuits through it along; the cable is the one to look at.
TEST(RenderDetailsTest, NamesTheLinkThatIsTheCause) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c"
         nodes { name: "a" answered: true state: "up"
                 links { peer: "c" state: grace reason: way_lost_link
                         detail: "the way through b has ended" } }
         nodes { name: "b" answered: true state: "up"
                 links { peer: "c" state: grace reason: interface_down
                         detail: "rail down: interface en2 is down" } }
         nodes { name: "c" state: "up" })");
  EXPECT_THAT(RenderStatusDetails(status, false),
              testing::HasSubstr("health: link b to c is down, jobs wait for it: check the cable"));
  status.mutable_nodes(1)->clear_links();
  EXPECT_THAT(RenderStatusDetails(status, false),
              testing::HasSubstr("health: link a to c is down"));
  status.mutable_nodes(0)->clear_links();
  EXPECT_THAT(RenderStatusDetails(status, false),
              testing::HasSubstr("health: node c does not answer"));
}

// Why: nodes choose their names, and a name like "the way through " must not look like a reason.
TEST(RenderDetailsTest, DoesNotMistakeANameForAReason) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c"
         nodes { name: "a" answered: true state: "up"
                 links { peer: "the way through b" state: grace reason: reset
                         detail: "rail down: the way through b closed it" } }
         nodes { name: "b" answered: true state: "up"
                 links { peer: "c" state: grace reason: way_ended detail: "rail down: no answer" } })");
  EXPECT_THAT(RenderStatusDetails(status, false),
              testing::HasSubstr("health: link a to the way through b is down"));
}

TEST(RenderDetailsTest, ShowsUsersTheirLimitsAndTheNumberOfHiddenJobs) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c" jobs_of_others: 2
         nodes { name: "a" version: "1" answered: true state: "up"
                 users { user: "ann" clients: 1 clients_max: 48 arena_bytes: 1048576
                         arena_bytes_max: 3145728 operations: 7 operations_max: 49152 groups: 3
                         groups_max: 3072 } }
         jobs { name: "train" size: 1 state: "running" user: "ann" })");
  const std::string text = RenderStatusDetails(status, /*colours=*/false);
  EXPECT_THAT(text,
              testing::HasSubstr("    user ann  1 of 48 clients, 1.0 MiB of 3.0 MiB for arenas, "
                                 "7 of 49152 operations in flight, 3 of 3072 groups\n"));
  EXPECT_THAT(text, testing::HasSubstr("  train  running  0 of 1 rank, user ann\n"
                                       "  2 jobs of other users\n"));
  status.clear_jobs();
  EXPECT_THAT(RenderStatusDetails(status, false),
              testing::HasSubstr("jobs\n  2 jobs of other users\n"));
}

TEST(RenderDetailsTest, ShowsGroupsBelowTheirJobAndThatItShrank) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(cluster: "c"
         jobs { name: "train" size: 3 state: "running" shrinks: 1 size_at_start: 4
                groups { name: "train/rows" size: 2 state: "running"
                         ranks { rank: 1 node: "a" pid: 8 operations_done: 1
                                 operation: "barrier, operation 2" operation_age_ms: 10 }
                         waits { waiting: 1 awaited: 0 operation: "shrink" age_ms: 10 } }
                groups_left_out: 2 })");
  EXPECT_NE(
      RenderStatusDetails(status, /*colours=*/false)
          .find("  train  running  0 of 3 ranks, shrunk from 4\n"
                "    group train/rows  running  2 ranks\n"
                "      rank 1  a, pid 8  1 operation done, in barrier, operation 2 for 10 ms\n"
                "      rank 1 waits for rank 0 in shrink for 10 ms\n"
                "    and 2 groups more\n"),
      std::string::npos);
}

TEST(RenderDetailsTest, HealthNamesTheRankAJobHasWaitedFor) {
  v1::StatusReply status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("train");
  job.set_state("running");
  v1::RankStatus& rank = *job.add_ranks();
  Add(R"(rank: 1 node: "b" pid: 77)", rank);
  v1::WaitStatus& wait = *job.add_waits();
  for (const std::uint32_t number : {0u, 2u, 3u, 4u, 5u, 7u, 8u}) wait.add_waiting(number);
  Add(R"(awaited: 1 operation: "barrier, operation 5" age_ms: 9999)", wait);
  EXPECT_NE(RenderStatusDetails(status, false).find("health: all is well"), std::string::npos);
  wait.set_age_ms(61'000);
  const std::string text = RenderStatusDetails(status, false);
  EXPECT_NE(text.find("ranks 0, 2-5, 7, 8 wait for rank 1 in barrier"), std::string::npos) << text;
  EXPECT_NE(text.find("health: job train has waited 1 min 1 s for rank 1: check pid 77 on b"),
            std::string::npos)
      << text;
  rank.set_operation(wait.operation());  // It has arrived: a large transfer only.
  EXPECT_NE(RenderStatusDetails(status, false).find("health: all is well"), std::string::npos);
}

TEST(RenderDetailsTest, HealthCountsJobsThatAreStillForming) {
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(node: "a" cluster: "c" nodes { name: "a" state: "up" answered: true }
         jobs { name: "train" size: 2 state: "forming" detail: "waits for rank 1" }
         jobs { name: "other" size: 2 state: "forming" detail: "waits for rank 0" })");
  EXPECT_NE(RenderStatusDetails(status, false)
                .find("health: 2 jobs are still forming: train waits for rank 1"),
            std::string::npos);
  status.mutable_jobs()->DeleteSubrange(0, 2);
  EXPECT_NE(RenderStatusDetails(status, false).find("health: all is well"), std::string::npos);
}

TEST(RenderDetailsTest, ReportsALostLinkOnce) {
  v1::StatusReply status;
  v1::LinkStatus& link = *status.add_nodes()->add_links();
  status.mutable_nodes(0)->set_answered(true);
  Add(R"(peer: "b" state: lost detail: "its daemon ended")", link);
  EXPECT_NE(RenderStatusDetails(status, false).find("    to b  lost  its daemon ended\n"),
            std::string::npos);
}

// Why: other users and nodes name jobs and programs; an escape sequence in a name must not control
// the terminal of the user who looks, or forge a line.
TEST(RenderDetailsTest, ShowsNoControlCharacterOfAName) {
  const std::string evil = "e\x1b[2J\n\x7f\u009b";
  v1::StatusReply status;
  status.set_cluster(evil);
  v1::NodeStatus& node = *status.add_nodes();
  node.set_answered(true);
  v1::LinkStatus& link = *node.add_links();
  v1::RailStatus& rail = *link.add_rails();
  v1::JobStatus& job = *status.add_jobs();
  v1::RankStatus& rank = *job.add_ranks();
  v1::WaitStatus& wait = *job.add_waits();
  wait.set_operation(evil);
  node.set_name(evil);
  node.set_version(evil);
  link.set_peer(evil);
  link.set_state(v1::LinkState::lost);
  link.set_detail(evil);
  rail.set_transport(v1::Transport::tcp);
  rail.set_local_address(evil);
  rail.set_remote_address(evil);
  rail.set_state(v1::RailState::down);
  rail.set_local_interface(evil);
  rail.set_remote_interface(evil);
  rail.set_detail(evil);
  node.set_state(evil);
  job.set_name(evil);
  job.set_state("failed");
  job.set_detail(evil);
  rank.set_node(evil);
  rank.set_program(evil);
  rank.set_operation(evil);
  const std::string text = RenderStatusDetails(status, /*colours=*/false);
  EXPECT_EQ(text.find_first_of("\x1b\x7f"), std::string::npos);
  EXPECT_EQ(text.find("\u009b"), std::string::npos);
  EXPECT_NE(text.find("e?[2J???"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);  // One for each thing shown.
}

}  // namespace
}  // namespace mlxcomm::ctl::render_details_test

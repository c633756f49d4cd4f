#include "client/ctl/status/render_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include <google/protobuf/text_format.h>

namespace mlxcomm::ctl::render_status_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kColumns = 80;

v1::StatusReply Parse(const std::string& text) {
  v1::StatusReply status;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &status));
  return status;
}
std::string Render(const v1::StatusReply& status) { return RenderStatus(status, false, kColumns); }

TEST(RenderStatusTest, HasARowForEachNodeAndLinkAndJob) {
  const v1::StatusReply status = Parse(
      R"(node: "studio-1" cluster: "c"
         nodes { name: "studio-1" version: "0.1.0" uptime_ms: 65000 answered: true state: "up"
                 clients: 1 memory_bytes: 6291456
                 links { peer: "mini" state: up
                         rails { transport: tcp state: up sent_bytes_per_second: 1500000
                                 received_bytes_per_second: 500000 round_trip_ns: 90000
                                 delivery_bytes_per_second_best: 3145728000 }
                         rails { transport: rdma state: up } } }
         nodes { name: "mini" version: "0.1.0" uptime_ms: 3600000 answered: true state: "lost"
                 clients: 12 memory_bytes: 62914560
                 links { peer: "studio-1" state: up
                         rails { transport: tcp state: up sent_bytes_per_second: 500000 } } }
         jobs { name: "train" size: 2 state: "running" user: "ann"
                ranks { rank: 0 } ranks { rank: 1 operation: "barrier" }
                waits { waiting: 1 awaited: 0 operation: "barrier, operation 5" age_ms: 3200 }
                waits { waiting: 0 awaited: 1 operation: "barrier, operation 6" age_ms: 3 } })");
  EXPECT_EQ(Render(status),
            "cluster c, 2 nodes, 1 job\n"
            "node      state  up for     clients  memory   mlxcommd\n"
            "studio-1  up     1 min 5 s  1        6.0 MiB  0.1.0  (this node)\n"
            "mini      lost   1 h 0 min  12       60 MiB   0.1.0\n"
            "link             state  over       now        at best    round trip\n"
            "studio-1 - mini  up     rdma, tcp  2.00 MB/s  3.15 GB/s  90.0 us\n"
            "job train  running  2 ranks, user ann\n"
            "  rank 1 waits for rank 0 in barrier, operation 5 for 3.2 s\n"
            "health: all is well\n");
}

// Why: it takes no new jobs, and who told it to stop wants to know how long that lasts.
TEST(RenderStatusTest, SaysWhatANodeThatDrainsWaitsForAndHowLong) {
  v1::StatusReply status = Parse(
      R"(node: "a" cluster: "c"
         nodes { name: "a" version: "0.1.0" uptime_ms: 65000 answered: true state: "draining"
                 drain { jobs: 1 left_ms: 2100 } })");
  EXPECT_EQ(
      Render(status),
      "cluster c, 1 node, no jobs\n"
      "node  state                      up for     clients  memory  mlxcommd\n"
      "a     draining, 1 job, 3 s left  1 min 5 s  0        0 B     0.1.0  (this node)\n"
      "health: node a is draining, 1 job, 3 s left: it takes no new jobs until its mlxcommd is "
      "started again\n");
  EXPECT_THAT(RenderStatusDetails(status, false),
              HasSubstr("  a  draining, 1 job, 3 s left  mlxc"));
  status.mutable_nodes(0)->mutable_drain()->set_jobs(2);
  status.mutable_nodes(0)->mutable_drain()->set_left_ms(3599500);
  EXPECT_THAT(Render(status), HasSubstr("draining, 2 jobs, 1 h 0 min left"));
}

TEST(RenderStatusTest, SaysBelowALinkWhatIsWrongWithIt) {
  const std::string text = Render(Parse(
      R"(node: "a" cluster: "c"
         nodes { name: "a" answered: true state: "up"
                 links { peer: "b" state: up large_lost: true large_lost_on: "en2 - en3"
                         rails { transport: tcp state: up }
                         rails { transport: tcp state: down local_interface: "en3"
                                 remote_interface: "en4" detail: "no answer in time" } }
                 links { peer: "c" state: lost detail: "its daemon ended" } })"));
  EXPECT_THAT(text, HasSubstr("a - b  up     tcp   idle\n"
                              "  small frames pass, large ones do not on en2 - en3 "));
  EXPECT_THAT(text, HasSubstr("\n  a: tcp en3 - en4  down  no answer in time\n"));
  EXPECT_THAT(text, HasSubstr("\na - c  lost  its daemon ended\n"));
}

// Why: each side has its own view, and the one that sees a fault counts.
TEST(RenderStatusTest, ShowsALinkAsItsWorseSideSeesIt) {
  const std::string text = Render(Parse(
      R"(node: "a" cluster: "c"
         nodes { name: "a" answered: true state: "up" links { peer: "b" state: up } }
         nodes { name: "b" answered: true state: "up"
                 links { peer: "a" state: grace detail: "nothing heard" } })"));
  EXPECT_THAT(text, HasSubstr("\na - b  grace"));
  EXPECT_THAT(text, HasSubstr("nothing heard\n"));
  EXPECT_THAT(text, Not(HasSubstr("b - a")));
}

// Why: each daemon tells of it, with the ends exchanged.
TEST(RenderStatusTest, ShowsACableThatIsDownOnce) {
  const std::string text = Render(Parse(
      R"(node: "a" cluster: "c"
         nodes { name: "a" id: "1" answered: true state: "up"
                 links { peer: "b" peer_id: "2" state: up
                         rails { transport: tcp state: up }
                         rails { transport: tcp state: down local_interface: "en3"
                                 remote_interface: "en4" } } }
         nodes { name: "b" id: "2" answered: true state: "up"
                 links { peer: "a" peer_id: "1" state: up
                         rails { transport: tcp state: up }
                         rails { transport: tcp state: down local_interface: "en4"
                                 remote_interface: "en3" } } })"));
  EXPECT_THAT(text, HasSubstr("\n  a: tcp en3 - en4  down\n"));
  EXPECT_THAT(text, Not(HasSubstr("en4 - en3")));
}

TEST(RenderStatusTest, TellsNodesOfOneNameApart) {
  const std::string text = Render(Parse(
      R"(node: "a" cluster: "c"
         nodes { name: "a" id: "1" answered: true state: "up"
                 links { peer: "mac" peer_id: "2" state: up rails { transport: tcp state: up } }
                 links { peer: "mac" peer_id: "3" state: up rails { transport: rdma state: up } }
                 links { peer: "mac" peer_id: "4" state: lost detail: "gone" } }
         nodes { name: "mac" id: "2" answered: true state: "up" }
         nodes { name: "mac" id: "3" answered: true state: "up" })"));
  EXPECT_THAT(text, HasSubstr("\na - mac  up     tcp"));
  EXPECT_THAT(text, HasSubstr("\na - mac  up     rdma"));
  EXPECT_THAT(text, HasSubstr("\na - mac  lost"));
}

TEST(RenderStatusTest, ColoursStatesAlone) {
  const v1::StatusReply status = Parse(
      R"(node: "a" cluster: "c"
         nodes { name: "a" answered: true state: "up" links { peer: "b" state: lost } })");
  const std::string text = RenderStatus(status, true, kColumns);
  EXPECT_THAT(text, HasSubstr("\nlink   state  over"));
  EXPECT_THAT(text, HasSubstr("\na - b  \x1b[31mlost\x1b[0m"));
}

v1::StatusReply Mesh(int nodes, const std::string& prefix) {
  v1::StatusReply status;
  status.set_cluster("studio");
  for (int a = 0; a < nodes; ++a) {
    v1::NodeStatus& node = *status.add_nodes();
    node.set_name(prefix + std::to_string(a));
    node.set_state("up");
    node.set_answered(true);
    node.set_version("0.1.0");
    for (int b = 0; b < nodes; ++b) {
      if (a == b) continue;
      v1::LinkStatus& link = *node.add_links();
      link.set_peer(prefix + std::to_string(b));
      link.set_state(v1::LinkState::up);
      v1::RailStatus& rail = *link.add_rails();
      rail.set_transport(v1::Transport::tcp);
      rail.set_state(v1::RailState::up);
      rail.set_sent_bytes_per_second(1'234'000'000.0);
      rail.set_round_trip_ns(123'000);
    }
  }
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("train");
  job.set_state("running");
  job.set_size(8);
  for (std::uint32_t rank = 0; rank < 8; ++rank) job.add_ranks()->set_rank(rank);
  return status;
}

void ExpectFits(const std::string& text, std::size_t rows) {
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    // The last one is a sentence, as long as it is.
    const bool is_sentence = line.starts_with("health:");
    EXPECT_TRUE(is_sentence || line.size() <= kColumns) << line;
  }
  EXPECT_LE(count, rows) << text;
}

TEST(RenderStatusTest, OfAMeshOfEightFitsATerminalOf40Rows) {
  v1::StatusReply status = Mesh(8, "mac-");
  ExpectFits(Render(status), 39);
  // Each of the 28 links is there.
  EXPECT_THAT(Render(status), HasSubstr("mac-6 - mac-7"));
  // One that is down stands above the others, with its reason.
  v1::LinkStatus& link = *status.mutable_nodes(3)->mutable_links(4);
  link.set_state(v1::LinkState::lost);
  link.set_detail("its daemon ended");
  link.mutable_rails(0)->set_state(v1::RailState::down);
  ExpectFits(Render(status), 39);
  EXPECT_THAT(Render(status), HasSubstr("mac-3 - mac-5  lost"));
}

TEST(RenderStatusTest, CountsLinksThatAreUpWhereTheyWouldFillTheScreen) {
  const std::string text = Render(Mesh(9, "a-rather-long-name-"));
  EXPECT_THAT(text, HasSubstr("\nand 8 links more that are up (-v shows all)\n"));
  EXPECT_THAT(Render(Mesh(20, "m")),
              HasSubstr("\nand 134 links more that are up (-v shows all)\n"));
}

TEST(RenderStatusTest, ShowsNoControlCharacterOfAName) {
  v1::StatusReply status = Mesh(2, "a\x1b[31m");
  status.mutable_jobs(0)->set_name("j\n");
  status.mutable_jobs(0)->set_detail("d\r");
  const std::string text = Render(status);
  EXPECT_TRUE(std::none_of(text.begin(), text.end(), [](char c) {
    return c < 0x20 && c != '\n' && c >= 0;
  })) << text;
}

}  // namespace
}  // namespace mlxcomm::ctl::render_status_test

#include "client/ctl/status/render_status.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::render_status_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr TerminalSize kScreen{.columns = 80, .rows = 40};

v1::StatusReply Parse(const std::string& text) { return MessageOf<v1::StatusReply>(text); }
std::string Render(const v1::StatusReply& status) { return RenderStatus(status, false, kScreen); }

TEST(RenderStatusTest, HasARowForEachNodeAndLinkAndJob) {
  const v1::StatusReply status = Parse(
      R"(node: "studio-1" cluster: "c"
         nodes { name: "studio-1" version: "0.1.0" uptime_ms: 65000 answered: true state: "up"
                 clients: 1 memory_bytes: 6291456
                 links { peer: "mini" state: up
                         rails { transport: tcp state: up sent_bytes_per_second: 1500000
                                 received_bytes_per_second: 500000 round_trip_ns: 90000
                                 delivery_bytes_per_second_best: 3145728000 }
                         rails { transport: rdma state: up delivery_bytes_per_second_best: 1e9 } } }
         nodes { name: "mini" version: "0.1.0" uptime_ms: 3600000 answered: true state: "lost"
                 clients: 12 memory_bytes: 62914560
                 links { peer: "studio-1" state: up
                         rails { transport: tcp state: up sent_bytes_per_second: 500000
                                 delivery_bytes_per_second_best: 2.2e9 } } }
         jobs { name: "train" size: 2 state: "running" user: "ann"
                ranks { rank: 0 } ranks { rank: 1 operation: "barrier" }
                waits { waiting: 1 awaited: 0 operation: "barrier, operation 5" age_ms: 3200 }
                waits { waiting: 0 awaited: 1 operation: "barrier, operation 6" age_ms: 3 } })");
  EXPECT_EQ(
      Render(status),
      "cluster c, 2 nodes, 1 job\n"
      "node      state  up for     clients  memory   mlxcommd\n"
      "studio-1  up     1 min 5 s  1        6.0 MiB  0.1.0  (this node)\n"
      "mini      lost   1 h 0 min  12       60 MiB   0.1.0\n"
      "link             state  over       now        at best    round trip\n"
      "studio-1 - mini  up     rdma, tcp  2.00 MB/s  2.20 GB/s  90.0 us\n"  // The slower direction.
      "job train  running  2 ranks, user ann\n"
      "  rank 1 waits for rank 0 in barrier, operation 5 for 3.2 s\n"
      "health: all is well\n");
}

// Why: it takes no new jobs, and the person who stopped it wants to know for how long.
TEST(RenderStatusTest, ShowsWhatADrainingNodeWaitsFor) {
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

TEST(RenderStatusTest, ShowsFaultsBelowTheirLink) {
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

// Why: both daemons report it, with the ends exchanged.
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

TEST(RenderStatusTest, DistinguishesNodesOfTheSameName) {
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

TEST(RenderStatusTest, ColoursOnlyStates) {
  const v1::StatusReply status = Parse(
      R"(node: "a" cluster: "c"
         nodes { name: "a" answered: true state: "up" links { peer: "b" state: lost } })");
  const std::string text = RenderStatus(status, true, kScreen);
  EXPECT_THAT(text, HasSubstr("\nlink   state  over"));
  EXPECT_THAT(text, HasSubstr("\na - b  \x1b[31mlost\x1b[0m"));
}

struct MeshOf {
  int nodes = 8;
  std::string prefix = "mac-";
  int jobs = 1;
};

v1::StatusReply Mesh(const MeshOf& given) {
  v1::StatusReply status;
  status.set_cluster("studio");
  status.set_node(given.prefix + "1");
  for (int a = 1; a <= given.nodes; ++a) {
    v1::NodeStatus& node = *status.add_nodes();
    node.set_name(given.prefix + std::to_string(a));
    Add(R"(state: "up" answered: true version: "0.1.0" uptime_ms: 3540000 clients: 12
           memory_bytes: 123456789)",
        node);
    for (int b = 1; b <= given.nodes; ++b) {
      if (a == b) continue;
      v1::LinkStatus& link = *node.add_links();
      link.set_peer(given.prefix + std::to_string(b));
      link.set_state(v1::LinkState::up);
      Add(R"(transport: tcp state: up sent_bytes_per_second: 1234000000 round_trip_ns: 123000
             delivery_bytes_per_second_best: 2345000000)",
          *link.add_rails());
    }
  }
  for (int number = 0; number < given.jobs; ++number) {
    v1::JobStatus& job = *status.add_jobs();
    job.set_name("launch-" + given.prefix + "1-5013-179577491" + std::to_string(number));
    job.set_state("running");
    job.set_size(8);
    for (std::uint32_t rank = 0; rank < 8; ++rank) job.add_ranks()->set_rank(rank);
  }
  return status;
}

void ExpectFits(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // The last one is a sentence, as long as it is, and so is a reason.
    const bool is_sentence = line.starts_with("health:") || line.ends_with("its daemon ended");
    EXPECT_TRUE(is_sentence || line.size() <= kScreen.columns) << line;
  }
  EXPECT_LT(RowsOf(text, kScreen.columns), kScreen.rows) << text;
}

void Lose(v1::StatusReply& status, int node, int link) {
  v1::LinkStatus& lost = *status.mutable_nodes(node)->mutable_links(link);
  lost.set_state(v1::LinkState::lost);
  lost.set_detail("its daemon ended");
  for (v1::RailStatus& rail : *lost.mutable_rails()) rail.set_state(v1::RailState::down);
}

TEST(RenderStatusTest, OfAMeshOfEightFitsATerminalOf40RowsAndShowsAllFaults) {
  for (const std::string prefix : {"mac-", "mac-studio-"}) {
    for (const int jobs : {0, 2}) {
      const MeshOf mesh{.prefix = prefix, .jobs = jobs};
      v1::StatusReply status = Mesh(mesh);
      ExpectFits(Render(status));
      // One that is down stands above the others, with its reason.
      Lose(status, 3, 4);
      ExpectFits(Render(status));
      EXPECT_THAT(Render(status), HasSubstr("\n" + prefix + "4 - " + prefix + "6  lost"));
      // A node that is gone: what is wrong is there, others are counted where they have no room.
      status = Mesh(mesh);
      for (int node = 0; node < 7; ++node) Lose(status, node, 6);
      *status.mutable_nodes(7) = v1::NodeStatus();
      status.mutable_nodes(7)->set_name(prefix + "8");
      status.mutable_nodes(7)->set_state("lost");
      ExpectFits(Render(status));
      for (int node = 1; node < 8; ++node) {
        const std::string name = prefix + std::to_string(node);
        EXPECT_THAT(Render(status), HasSubstr("\n" + name + " - " + prefix + "8  lost "));
        EXPECT_THAT(Render(status), HasSubstr("\n  " + name + ": tcp -   down\n"));
      }
    }
  }
}

// Why: links were listed in the order in which they had been made.
TEST(RenderStatusTest, SortsNodesAndLinksByNameAfterItsOwn) {
  const std::string text = Render(Parse(
      R"(node: "m-5" cluster: "c"
         nodes { name: "m-5" links { peer: "m-10" state: up } links { peer: "m-9" state: up } }
         nodes { name: "m-10" links { peer: "m-9" state: up } links { peer: "m-5" state: up } }
         nodes { name: "m-9" links { peer: "m-10" state: up } links { peer: "m-5" state: up } })"));
  const auto at = [&text](const char* row) {
    EXPECT_THAT(text, HasSubstr(row));
    return text.find(row);
  };
  EXPECT_LT(at("\nm-5  ("), at("\nm-9  ("));
  EXPECT_LT(at("\nm-9  ("), at("\nm-10  ("));
  EXPECT_LT(at("\nm-5 - m-9 "), at("\nm-5 - m-10 "));
  EXPECT_LT(at("\nm-5 - m-10 "), at("\nm-9 - m-10 "));
}

TEST(RenderStatusTest, CountsHealthyLinksThatWouldFillTheScreen) {
  v1::StatusReply status = Mesh({.nodes = 9, .prefix = "a-rather-long-name-"});
  EXPECT_THAT(RenderStatus(status, false, {.columns = 200, .rows = 60}), Not(HasSubstr(" more ")));
  EXPECT_LT(RowsOf(Render(status), kScreen.columns), kScreen.rows);
  EXPECT_THAT(Render(status), HasSubstr(" links more that are up (-v shows all)\n"));
  // The busiest stay, and what is wrong.
  status.mutable_nodes(7)->mutable_links(7)->mutable_rails(0)->set_sent_bytes_per_second(9e9);
  Lose(status, 6, 7);
  EXPECT_THAT(Render(status), HasSubstr("name-8 - a-rather-long-name-9  up "));
  EXPECT_THAT(Render(status), HasSubstr("name-7 - a-rather-long-name-9  lost "));
  // 20 nodes, a job, three other lines and the prompt leave 15 rows; two are header and count.
  EXPECT_THAT(Render(Mesh({.nodes = 20, .prefix = "m"})),
              HasSubstr("\nand 177 links more that are up (-v shows all)\n"));
}

TEST(RenderStatusTest, ShowsNoControlCharacterOfAName) {
  v1::StatusReply status = Mesh({.nodes = 2, .prefix = "a\x1b[31m"});
  status.mutable_jobs(0)->set_name("j\n");
  status.mutable_jobs(0)->set_detail("d\r");
  const std::string text = Render(status);
  EXPECT_TRUE(std::none_of(text.begin(), text.end(), [](char c) {
    return c < 0x20 && c != '\n' && c >= 0;
  })) << text;
}

// Ten minutes long, because people look a while after the failure.
TEST(RenderStatusTest, ShowsJobsThatFailedButNotThoseThatSucceeded) {
  v1::StatusReply status = Parse(
      R"(node: "a" cluster: "c" nodes { name: "a" answered: true state: "up" }
         ended_jobs { name: "digits" ended_ms_ago: 12000 code: "RANK_LOST" rank: 1 node: "mac-b"
                      pid: 7 }
         ended_jobs { name: "well" ended_ms_ago: 13000 }
         ended_jobs { name: "other" ended_ms_ago: 61000 code: "MISMATCH" })");
  const std::string text = Render(status);
  EXPECT_THAT(text, HasSubstr("job digits failed 12.0 s ago: RANK_LOST rank 1 (mac-b, pid 7)\n"
                              "job other failed 1 min 1 s ago: MISMATCH\n"
                              "health: 2 jobs failed within the last 10 minutes: "));
  EXPECT_THAT(text, Not(HasSubstr("well")));
  for (int i = 0; i < 4; ++i) *status.add_ended_jobs() = status.ended_jobs(0);
  EXPECT_THAT(Render(status), HasSubstr("and 1 job more that failed (--json lists all of them)\n"));
}

}  // namespace
}  // namespace mlxcomm::ctl::render_status_test

// Advice that would be wrong: to the healthy side of a fault, beside what exists, after it is over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/ctl/doctor/check.h"
#include "client/ctl/status/health.h"
#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::fault_advice_test {
namespace {

using Why = v1::LinkReason;

// A ring of nodes a, b and c with all links up; doctor runs on a.
Facts Ring() {
  Facts facts;
  facts.own_version = "1";
  facts.cluster.daemon_answers = true;
  Add(R"(node: "a" cluster: "c"
         nodes { name: "a" id: "1" version: "1" answered: true state: "up" cluster_keys: "k"
                 links { peer: "b" peer_id: "2" state: up
                         rails { transport: tcp state: up local_interface: "a-b"
                                 remote_interface: "b-a" } }
                 links { peer: "c" peer_id: "3" state: up
                         rails { transport: tcp state: up local_interface: "a-c"
                                 remote_interface: "c-a" } } }
         nodes { name: "b" id: "2" version: "1" answered: true state: "up" cluster_keys: "k"
                 links { peer: "a" peer_id: "1" state: up }
                 links { peer: "c" peer_id: "3" state: up } })",
      facts.cluster.status);
  Add(R"(node: "a"
         nodes { name: "a" answered: true open_files_max: 4096 listening: "0.0.0.0:1"
                 interfaces { name: "a-b" up: true } interfaces { name: "a-c" up: true } }
         nodes { name: "b" answered: true open_files_max: 4096
                 interfaces { name: "b-a" up: true } interfaces { name: "b-c" up: true } })",
      facts.cluster.checkups);
  Add(R"(node: "a" shape: "ring" ring: "1" ring: "2" ring: "3" ring_closed: true
         nodes { id: "1" name: "a" state: "up" } nodes { id: "2" name: "b" state: "up" }
         nodes { id: "3" name: "c" state: "up" })",
      facts.cluster.topology);
  return facts;
}

v1::NodeStatus& Own(Facts& facts) { return *facts.cluster.status.mutable_nodes(0); }

v1::LinkStatus& LoseC(Facts& facts, Why::Value reason) {
  v1::LinkStatus& link = *Own(facts).mutable_links(1);
  link.set_state(v1::LinkState::lost);
  link.set_reason(reason);
  link.set_detail("how it ended");
  link.clear_rails();
  facts.cluster.topology.mutable_nodes(2)->set_state("lost");
  facts.cluster.topology.mutable_ring()->RemoveLast();
  facts.cluster.topology.set_ring_closed(false);
  facts.cluster.topology.set_shape("pair");
  return link;
}

std::vector<Finding> Wrong(const Facts& facts) {
  std::vector<Finding> found = Check(facts).Sorted();
  std::erase_if(found, [](const Finding& finding) {
    return KindOf(finding.code)->severity == Severity::kOk;
  });
  return found;
}

std::vector<std::string> Ids(const Facts& facts) {
  std::vector<std::string> ids;
  for (const Finding& finding : Wrong(facts)) ids.push_back(finding.id);
  return ids;
}

using Strings = std::vector<std::string>;

TEST(FaultAdviceTest, FindsNothingIfAllIsWell) { EXPECT_EQ(Ids(Ring()), Strings{}); }

// Why: it suggested to wake the machine and start mlxcommd.
TEST(FaultAdviceTest, NamesTheSideThatMustChangeItsKey) {
  Facts facts = Ring();
  v1::RailStatus& rail = *LoseC(facts, Why::peer_stopped).add_rails();
  rail.set_state(v1::RailState::down);
  rail.set_reason(Why::wrong_key);
  rail.set_detail("it does not hold this cluster's key");
  ASSERT_EQ(Ids(facts), Strings{"MC209"});
  const Finding found = Wrong(facts)[0];
  EXPECT_EQ(found.found, "it does not hold this cluster's key");
  EXPECT_TRUE(found.remedy.starts_with("a has other links, so change c:")) << found.remedy;
  EXPECT_NE(found.remedy.find("key show prints on a,"), std::string::npos) << found.remedy;
  Own(facts).mutable_links(0)->set_state(v1::LinkState::lost);
  EXPECT_EQ(Ids(facts), (Strings{"MC209/alone", "MC502"}));
  EXPECT_THAT(Wrong(facts)[0].remedy, testing::HasSubstr("so change a (or c"));
  EXPECT_THAT(Wrong(facts)[0].remedy, testing::HasSubstr("cluster key show prints on c"));
}

// Why: the side that is dialed only counts the connections it refuses.
TEST(FaultAdviceTest, SuspectsAnotherKeyIfStrangersConnectAfterALoss) {
  Facts facts = Ring();
  LoseC(facts, Why::peer_stopped);
  EXPECT_EQ(Ids(facts), (Strings{"MC501/lost", "MC502"}));
  Own(facts).set_strangers_refused(3);
  Own(facts).set_stranger_refused_ms_ago(500);
  ASSERT_EQ(Ids(facts), (Strings{"MC502/knocks", "MC509"}));
  EXPECT_EQ(Wrong(facts)[0].found, "how it ended; connections without this cluster's key arrive");
  Own(facts).set_stranger_refused_ms_ago(61'000);
  EXPECT_EQ(Ids(facts), (Strings{"MC501/lost", "MC502", "MC509"})) << "they no longer come";
  Own(facts).clear_strangers_refused();
  Add(R"(name: "a-c" used: true foreign_ms_ago: 900)",
      *Own(facts).mutable_discovery()->add_interfaces());
  v1::DiscoveredNeighbour& known = *Own(facts).mutable_discovery()->add_neighbours();
  Add(R"(id: "3" local_interface: "a-c" state: "lost")", known);
  EXPECT_EQ(Ids(facts), (Strings{"MC502/knocks"}));
  known.set_local_interface("a-b");
  EXPECT_EQ(Ids(facts), (Strings{"MC501/lost", "MC502"})) << "it was on another cable";
}

// Why: beside the MTU it also suggested to start mlxcommd.
TEST(FaultAdviceTest, BlamesOnlyTheMtuHoweverTheLinkEnded) {
  Facts facts = Ring();
  LoseC(facts, Why::cut).set_large_lost(true);
  EXPECT_EQ(Ids(facts), (Strings{"MC515", "MC515/down"}));
}

// Why: a node that only listens reported just that connections were refused.
TEST(FaultAdviceTest, ReportsOtherKeysToANodeWithoutLinks) {
  Facts facts = Ring();
  Own(facts).clear_links();
  facts.cluster.status.mutable_nodes()->RemoveLast();
  Own(facts).set_strangers_refused(2);
  Own(facts).set_stranger_refused_ms_ago(3'000);
  ASSERT_EQ(Ids(facts), (Strings{"MC211/refused", "MC509"}));
  EXPECT_EQ(
      Wrong(facts)[0].found,
      "2 connections without its key, the last 3.0 s ago, and no neighbour (mlxcommctl events "
      "shows their addresses)");
  EXPECT_NE(Wrong(facts)[0].remedy.find("mlxcommctl doctor --recent 10s"), std::string::npos);
  facts.recent_ms = 3'000;
  EXPECT_EQ(Ids(facts), Strings{}) << "no more come";
}

// Why: it suggested to check the cable.
TEST(FaultAdviceTest, NamesTheInterfaceThatIsOffAtEitherEnd) {
  Facts facts = Ring();
  v1::RailStatus& rail = *Own(facts).mutable_links(0)->mutable_rails(0);
  rail.set_state(v1::RailState::down);
  rail.set_reason(Why::no_answer);
  EXPECT_EQ(Ids(facts), Strings{"MC305"});
  facts.cluster.checkups.mutable_nodes(1)->mutable_interfaces(0)->set_up(false);
  ASSERT_EQ(Ids(facts), Strings{"MC202/elsewhere"});
  EXPECT_EQ(Wrong(facts)[0].object, "node b, interface b-a");
  EXPECT_TRUE(Wrong(facts)[0].remedy.starts_with("on b, as root: ip link set dev b-a up"));
  facts = Ring();
  v1::LinkStatus& link = LoseC(facts, Why::interface_down);
  EXPECT_EQ(Ids(facts), (Strings{"MC501/lost", "MC502/interface"}));
  link.set_last_local_interface("a-c");
  facts.cluster.checkups.mutable_nodes(0)->mutable_interfaces(1)->set_up(false);
  InterfaceFacts own;
  own.name = "a-c";
  facts.system.interfaces = {own};
  ASSERT_EQ(Ids(facts), (Strings{"MC502/off", "MC202"}));
  EXPECT_EQ(Wrong(facts)[0].found, "interface a-c of a is switched off");
}

// Why: if the heartbeat stopped before the carrier's event came, it suggested to start mlxcommd.
TEST(FaultAdviceTest, NamesTheInterfaceWithoutACarrierHoweverTheLinkEnded) {
  Facts facts = Ring();
  v1::InterfaceCheckup& own = *facts.cluster.checkups.mutable_nodes(0)->mutable_interfaces(1);
  v1::LinkStatus& link = LoseC(facts, Why::silent);
  link.set_last_local_interface("a-c");
  own.set_running(true);
  EXPECT_EQ(Ids(facts), (Strings{"MC501/lost", "MC502"}));
  own.set_running(false);
  ASSERT_EQ(Ids(facts), (Strings{"MC501/lost", "MC502/carrier"}));
  const Finding found = Wrong(facts)[1];
  EXPECT_EQ(found.found, "how it ended; interface a-c of a has no carrier now");
  EXPECT_NE(found.remedy.find("check the cable at both ends, and that the interface"),
            std::string::npos);
  EXPECT_EQ(found.remedy.find("mlxcommd"), std::string::npos) << found.remedy;
  link.set_reason(Why::wrong_key);
  EXPECT_EQ(Ids(facts), Strings{"MC209"}) << "it answers over another interface";
}

// Why: it suggested "a cable between b and a" for a ring whose cable was pulled.
TEST(FaultAdviceTest, SuggestsNoCableIfOneIsOnlyDown) {
  Facts facts = Ring();
  facts.cluster.topology.set_ring_closed(false);
  facts.cluster.topology.set_shape("line");
  EXPECT_EQ(Ids(facts), Strings{"MC508"});
  Own(facts).mutable_links(1)->mutable_rails(0)->set_state(v1::RailState::down);
  EXPECT_EQ(Ids(facts), Strings{"MC305"});
  Own(facts).mutable_links(1)->mutable_rails(0)->set_state(v1::RailState::up);
  facts.cluster.topology.add_nodes()->set_state("lost");
  EXPECT_EQ(Ids(facts), Strings{"MC501/lost"}) << "a node of the ring is missing";
}

// Why: doctor ended with 4 until the daemon was started again.
TEST(FaultAdviceTest, ForgetsOneOffEventsAfterTenMinutes) {
  Facts facts = Ring();
  Own(facts).set_strangers_refused(6);
  Own(facts).set_nodes_refused(1);
  v1::LinkStatus& link = *Own(facts).mutable_links(0);
  link.set_changed_frames(2);
  const auto ago = [&](std::uint64_t ms) {
    Own(facts).set_stranger_refused_ms_ago(ms);
    Own(facts).set_node_refused_ms_ago(ms);
    link.set_changed_ms_ago(ms);
    return Ids(facts);
  };
  EXPECT_EQ(ago(599'999), (Strings{"MC509", "MC513", "MC514"}));
  EXPECT_EQ(ago(600'000), Strings{});
  facts.recent_ms = 700'000;
  EXPECT_EQ(ago(600'000), (Strings{"MC509", "MC513", "MC514"}));
}

// Why: a second after a job had died, everything was well.
TEST(FaultAdviceTest, NamesJobsThatFailedRecently) {
  Facts facts = Ring();
  v1::EndedJob& job = *facts.cluster.status.add_ended_jobs();
  job.set_name("digits");
  job.set_ended_ms_ago(12'000);
  EXPECT_EQ(Ids(facts), Strings{}) << "it has not failed";
  Add(R"(code: "RANK_LOST" rank: 1 node: "mac-b" pid: 7)", job);
  ASSERT_EQ(Ids(facts), Strings{"MC519"});
  EXPECT_EQ(Wrong(facts)[0].found, "failed 12.0 s ago: RANK_LOST rank 1 (mac-b, pid 7)");
}

// Why: it found nothing wrong while a job waited for a rank that was never started.
TEST(FaultAdviceTest, NamesTheRanksAJobWaitsFor) {
  Facts facts = Ring();
  v1::JobStatus& job = *facts.cluster.status.add_jobs();
  Add(R"(name: "train" state: "forming" detail: "waits for rank 1")", job);
  v1::RankStatus& rank = *job.add_ranks();
  rank.set_operation_age_ms(9'999);
  EXPECT_EQ(Ids(facts), Strings{"MC517"}) << "most ranks come within seconds";
  rank.set_operation_age_ms(10'000);
  ASSERT_EQ(Ids(facts), Strings{"MC510/forming"});
  EXPECT_EQ(Wrong(facts)[0].found, "waits for rank 1, for 10.0 s");
  job.set_state("running");
  EXPECT_EQ(Ids(facts), Strings{});
  rank.set_rank(1);
  Add(R"(awaited: 1 age_ms: 10000 operation: "barrier")", *job.add_waits());
  EXPECT_EQ(Ids(facts), Strings{"MC510/waits"});
}

// Why: "check pid 11" of one of them, and "let that process continue", when each waits for another.
TEST(FaultAdviceTest, NamesAllRanksOfACircle) {
  Facts facts = Ring();
  v1::JobStatus& job = *facts.cluster.status.add_jobs();
  job.set_name("j");
  job.set_state("running");
  for (const std::uint32_t rank : {0u, 1u, 2u}) {
    job.add_ranks()->set_rank(rank);
    v1::WaitStatus& wait = *job.add_waits();
    wait.add_waiting(rank);
    wait.add_awaited((rank + 1) % 3);
    wait.set_age_ms(20'000);
    wait.set_operation("send");
  }
  job.set_circle("ranks 0, 1, 2 of group j wait for each other (0 for 1, 1 for 2, 2 for 0)");
  ASSERT_EQ(Ids(facts), Strings{"MC510/circle"});
  EXPECT_EQ(Wrong(facts)[0].found, job.circle());
  EXPECT_EQ(HealthOf(facts.cluster.status).text, Wrong(facts)[0].found);
}

// Why: doctor had no finding for it, and status showed it forever, without a remedy.
TEST(FaultAdviceTest, ReportsARefusedRestart) {
  Facts facts = Ring();
  v1::RestartStatus& restart = *facts.cluster.status.mutable_nodes(1)->mutable_restart();
  Add(R"(asked: 1 refused: "key_file: no such file" refused_ms_ago: 599999)", restart);
  ASSERT_EQ(Ids(facts), Strings{"MC518"});
  EXPECT_EQ(Wrong(facts)[0].object, "node b");
  EXPECT_TRUE(Wrong(facts)[0].found.starts_with("key_file: no such file ("))
      << Wrong(facts)[0].found;
  for (const std::string& message : {Wrong(facts)[0].remedy, HealthOf(facts.cluster.status).text}) {
    EXPECT_NE(message.find("mlxcommctl service restart"), std::string::npos) << message;
    EXPECT_NE(message.find("mlxcommctl service restart --cancel"), std::string::npos) << message;
  }
  restart.set_refused_ms_ago(600'000);
  EXPECT_EQ(Ids(facts), Strings{});
  EXPECT_TRUE(HealthOf(facts.cluster.status).good) << HealthOf(facts.cluster.status).text;
}

TEST(FaultAdviceTest, ExpectsNoNeighboursOfAPrivateDaemon) {
  Facts facts = Ring();
  Own(facts).clear_links();
  facts.cluster.status.mutable_nodes()->RemoveLast();
  facts.cluster.checkups.mutable_nodes(0)->clear_listening();
  EXPECT_EQ(Ids(facts), Strings{"MC104"});
  Own(facts).set_ends_with_last_client(true);
  EXPECT_EQ(Ids(facts), Strings{});
}

// How: every node's link shows it, so doctor reports it on every node.
TEST(FaultAdviceTest, NamesTheOtherMachineWithTheIdOfALinkedNode) {
  Facts facts = Ring();
  v1::LinkStatus& link = *facts.cluster.status.mutable_nodes(1)->mutable_links(0);
  link.set_same_id_at("10.0.0.9");
  link.set_same_id_ms_ago(facts.recent_ms);
  EXPECT_EQ(Ids(facts), Strings{});
  link.set_same_id_ms_ago(1000);
  EXPECT_EQ(Ids(facts), Strings{"MC213/linked"});
  const Health health = HealthOf(facts.cluster.status);
  EXPECT_FALSE(health.good);
  EXPECT_NE(health.text.find("at 10.0.0.9, also has the node id of a"), std::string::npos)
      << health.text;
}

// Why: of the two, the machine that is refused has to say so as well.
TEST(FaultAdviceTest, ReportsTheIdOnTheOtherMachineToo) {
  Facts facts = Ring();
  LoseC(facts, Why::same_id);
  EXPECT_EQ(Ids(facts), Strings{"MC213/refused"});
}

}  // namespace
}  // namespace mlxcomm::ctl::fault_advice_test

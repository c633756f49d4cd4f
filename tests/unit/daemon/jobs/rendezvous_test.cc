// The processes of a job find each other, in any order of attaching and announcing.
#include "daemon/jobs/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/daemon/jobs/rendezvous_cluster.h"

namespace mlxcomm::jobs::rendezvous_test {
namespace {

using testing::HasSubstr;

// With one rank on each of the first two nodes.
v1::WorldFormed WorldOfTwo(const std::string& job, std::uint64_t attempt_of_second = 0) {
  v1::WorldFormed formed;
  formed.set_job(job);
  formed.set_user("ann");
  formed.set_group(5);
  for (const std::uint8_t node : {std::uint8_t{1}, std::uint8_t{2}}) {
    const NodeId id = Id(node);
    formed.add_members()->set_node_id(id.bytes.data(), id.bytes.size());
  }
  if (attempt_of_second != 0) formed.mutable_members(1)->set_attempt(attempt_of_second);
  return formed;
}

// Why: two users may choose the same name for a job, of the same size, on the same nodes.
// How: each has a rank on each of two nodes, so there are four claims of two ranks; each user's two
// ranks can meet without a refusal only if these are two jobs.
TEST(RendezvousTest, TwoUsersJobsOfTheSameNameNeverMeet) {
  Cluster cluster(2);
  cluster.Attach(0, 1, 0, 2, "train", "ann");
  cluster.Attach(1, 1, 1, 2, "train", "bob");
  cluster.Run();
  EXPECT_TRUE(cluster.nodes[0]->formed.empty());
  cluster.Attach(0, 2, 0, 2, "train", "bob");
  cluster.Run();
  ASSERT_EQ(cluster.nodes[0]->formed.size(), 1u);
  EXPECT_EQ(cluster.nodes[0]->last_job, (JobId{"bob", "train"}));
  EXPECT_EQ(cluster.nodes[0]->last[0].pid, 1002u);
  EXPECT_EQ(cluster.nodes[1]->last_job, (JobId{"bob", "train"}));
  cluster.Attach(1, 2, 1, 2, "train", "ann");
  cluster.Run();
  ASSERT_EQ(cluster.nodes[1]->formed.size(), 2u);
  EXPECT_EQ(cluster.nodes[1]->last_job, (JobId{"ann", "train"}));
  EXPECT_TRUE(cluster.nodes[0]->refused.empty());
  EXPECT_TRUE(cluster.nodes[1]->refused.empty());
}

// Why: a user who waits for ranks that another user has started should learn what to check, and
// nothing about that other user.
TEST(RendezvousTest, WhoWaitsInVainHearsAsWhomItWaited) {
  Cluster cluster(2);
  cluster.Attach(0, 1, 0, 2, "train", "ann");
  cluster.Attach(1, 1, 1, 2, "train", "bob");
  cluster.Run();
  cluster.nodes[0]->rendezvous()->OnTime(1'000'000'000);
  ASSERT_EQ(cluster.nodes[0]->refused.count(1), 1u);
  EXPECT_THAT(cluster.nodes[0]->refused[1].message, HasSubstr("as user ann"));
  EXPECT_THAT(cluster.nodes[0]->refused[1].message, testing::Not(HasSubstr("bob")));
}

// Why: a withdrawal and a refusal name a job too; another user's job of that name stays.
TEST(RendezvousTest, ARankThatWithdrawsTakesNoOtherUsersClaimWithIt) {
  Cluster cluster(2);
  cluster.Attach(1, 1, 1, 2, "train", "ann");
  cluster.Attach(1, 2, 1, 2, "train", "bob");
  cluster.Run();
  ASSERT_EQ(cluster.nodes[0]->rendezvous()->AllWaiting().size(), 2u);
  cluster.nodes[1]->rendezvous()->Leave(1);
  cluster.Run();
  const auto waiting = cluster.nodes[0]->rendezvous()->AllWaiting();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].claim.user(), "bob");
}

TEST(RendezvousTest, RefusesAUserThatNoTerminalCouldShow) {
  Cluster cluster(2);
  v1::RankAnnounced announced = Claim({"ann\n", "train"}, 0, 2);
  cluster.nodes[0]->rendezvous()->OnRankAnnounced(Id(2), announced);
  announced.set_user(std::string(201, 'a'));
  cluster.nodes[0]->rendezvous()->OnRankAnnounced(Id(2), announced);
  EXPECT_TRUE(cluster.nodes[0]->rendezvous()->AllWaiting().empty());
}

TEST(RendezvousTest, FormsOneWorldOnAllNodesWhateverTheOrder) {
  std::vector<int> order = {0, 1, 2};
  do {
    Cluster cluster(3);
    for (const int i : order) {
      cluster.Attach(i, 1, static_cast<std::uint32_t>(i), 3);
      cluster.Run();
    }
    for (const auto& node : cluster.nodes) {
      ASSERT_EQ(node->formed.size(), 1u);
      EXPECT_EQ(node->formed[0], cluster.nodes[0]->formed[0]);
      ASSERT_EQ(node->last.size(), 3u);
      EXPECT_EQ(node->last[1].node, Id(2));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// Why: nodes that plan with different costs choose different plans.
TEST(RendezvousTest, GivesAllNodesTheWorstCostsOfAnyWithinBounds) {
  Cluster cluster(3);
  cluster.nodes[0]->own_costs.set_latency_ns(~std::uint64_t{0});
  cluster.nodes[0]->own_costs.set_links_per_node(3);
  cluster.nodes[1]->own_costs.set_latency_ns(4096);
  cluster.nodes[1]->own_costs.set_links_per_node(2);
  for (int i = 0; i < 3; ++i) cluster.Attach(i, 1, static_cast<std::uint32_t>(i), 3);
  cluster.Run();
  for (const auto& node : cluster.nodes) {
    EXPECT_EQ(node->last_costs.latency_ns(), std::uint64_t{1} << 30);
    EXPECT_EQ(node->last_costs.links_per_node(), 2u);
    EXPECT_EQ(node->last_costs.bytes_per_second(), 0u);  // No node has measured it.
  }
}

TEST(RendezvousTest, RefusesATakenRankNamingWhoHasIt) {
  Cluster cluster(2);
  cluster.Attach(0, 1, 0, 2);
  cluster.Run();
  cluster.Attach(1, 7, 0, 2);
  ASSERT_TRUE(cluster.nodes[1]->refused.contains(7));
  EXPECT_EQ(cluster.nodes[1]->refused[7].code, FailureCode::kAlreadyExists);
  EXPECT_THAT(cluster.nodes[1]->refused[7].message, HasSubstr("pid 1001 on node node-1"));
}

TEST(RendezvousTest, RefusesAnotherSizeAlsoFromAfar) {
  Cluster cluster(2);
  cluster.Attach(0, 1, 0, 2);
  cluster.Attach(1, 2, 1, 3);  // Before it has learned of the first.
  cluster.Run();
  EXPECT_EQ(cluster.nodes[0]->refused.size() + cluster.nodes[1]->refused.size(), 2u);
  EXPECT_THAT(cluster.nodes[1]->refused[2].message, HasSubstr("size"));
}

TEST(RendezvousTest, ForgetsWhoWithdrewAndLostNodes) {
  Cluster cluster(2);
  cluster.Attach(1, 5, 1, 2);
  cluster.Run();
  cluster.nodes[1]->rendezvous()->Leave(5);
  cluster.Run();
  EXPECT_TRUE(cluster.nodes[0]->rendezvous()->AllWaiting().empty());
  cluster.Attach(1, 6, 1, 2);
  cluster.Run();
  cluster.nodes[0]->rendezvous()->OnNodeLost(Id(2));
  cluster.Attach(0, 1, 0, 2);
  EXPECT_TRUE(cluster.nodes[0]->formed.empty());
  // The node comes back and announces its waiting ranks again.
  cluster.nodes[1]->Meet(*cluster.nodes[0]);
  cluster.Run();
  EXPECT_EQ(cluster.nodes[0]->formed.size(), 1u);
}

// Why: an announcement and the world come from two nodes, over two routes. A claim that is noted
// after its world has formed would wait forever: status would show it, and the job's next ranks
// would be refused because of it.
// How: three nodes, ranks on the first two; the third learns of the world before it learns of rank
// 1, whose process then ends. Rank 1 of the next run is started on the third node.
TEST(RendezvousTest, AnAnnouncementThatComesAfterItsWorldLeavesNoClaim) {
  Cluster cluster(3);
  cluster.Attach(1, 1, 1, 2);
  std::vector<Cluster::Message> late;
  std::erase_if(cluster.wire, [&late](const Cluster::Message& message) {
    if (message.to == Id(3)) late.push_back(message);
    return message.to == Id(3);
  });
  ASSERT_EQ(late.size(), 1u);
  cluster.Attach(0, 1, 0, 2);
  cluster.Run();
  ASSERT_EQ(cluster.nodes[0]->formed.size(), 1u);
  cluster.wire.push_back(late[0]);
  cluster.Run();
  EXPECT_TRUE(cluster.nodes[2]->rendezvous()->AllWaiting().empty());
  for (int node : {0, 1}) cluster.nodes[static_cast<std::size_t>(node)]->rendezvous()->Leave(1);
  cluster.Attach(2, 7, 1, 3);
  cluster.Attach(0, 8, 0, 3);
  cluster.Attach(1, 9, 2, 3);
  cluster.Run();
  EXPECT_TRUE(cluster.nodes[2]->refused.empty());
  EXPECT_EQ(cluster.nodes[2]->formed.size(), 1u);
}

// Why: a rank whose process has died is restarted elsewhere. A third node may get the new claim
// before the withdrawal of the old one, because these arrive over two links; if it kept only the
// first, the job would never form.
TEST(RendezvousTest, AClaimThatComesBeforeTheFormerIsWithdrawnIsKept) {
  for (const bool dies : {false, true}) {
    Cluster cluster(3);
    Cluster::Node& first = *cluster.nodes[0];
    v1::RankAnnounced claim = Claim({"ann", "job"}, 1, 2);
    claim.set_attempt(9);
    first.rendezvous()->OnRankAnnounced(Id(2), claim);
    claim.set_attempt(11);
    first.rendezvous()->OnRankAnnounced(Id(3), claim);
    cluster.Attach(0, 1, 0, 2);
    EXPECT_TRUE(cluster.nodes[0]->formed.empty());  // It is not clear yet which is rank 1.
    v1::RankWithdrawn withdrawn;
    withdrawn.set_job("job");
    withdrawn.set_user("ann");
    withdrawn.set_attempt(9);
    if (dies) {
      first.rendezvous()->OnNodeLost(Id(2));
    } else {
      first.rendezvous()->OnRankWithdrawn(Id(2), withdrawn);
    }
    ASSERT_EQ(cluster.nodes[0]->formed.size(), 1u);
    EXPECT_EQ(cluster.nodes[0]->last[1].node, Id(3));
  }
}

// Why: a node that starts while a job forms may learn of a rank from its node, but not of the world
// from rank 0's node, to which it is not linked yet. It would show the job as forming, and refuse
// the rank to the next run, forever.
TEST(RendezvousTest, ANodeThatMissesTheWorldDoesNotKeepItsRanks) {
  Cluster cluster(3);
  cluster.Attach(1, 1, 1, 2);
  cluster.Run();
  EXPECT_EQ(cluster.nodes[2]->rendezvous()->AllWaiting().size(), 1u);
  cluster.Attach(0, 1, 0, 2);
  std::erase_if(cluster.wire, [](const auto& message) { return message.to == Id(3); });
  cluster.Run();
  ASSERT_EQ(cluster.nodes[1]->formed.size(), 1u);
  EXPECT_TRUE(cluster.nodes[2]->rendezvous()->AllWaiting().empty());
}

// Why: a world is lost on its way to one of its own nodes if that one has given up the node of rank
// 0. It never becomes ready, so its ranks get a failure and leave; but the third node, which never
// learned of the world, would show them as waiting forever, and hold them against others that claim
// these ranks. A world that was ready has reached every node: then nothing more is sent.
TEST(RendezvousTest, RanksOfAWorldThatNeverReachedANodeAreWithdrawnThere) {
  for (const bool is_ready : {false, true}) {
    Cluster cluster(3);
    cluster.Attach(2, 3, 2, 3);
    cluster.Attach(1, 2, 1, 3);
    cluster.Run();
    cluster.Attach(0, 1, 0, 3);
    std::erase_if(cluster.wire, [](const Cluster::Message& message) {
      return message.to == Id(3) && message.from == Id(1);
    });
    cluster.Run();
    ASSERT_EQ(cluster.nodes[1]->formed.size(), 1u);
    ASSERT_TRUE(cluster.nodes[2]->formed.empty());
    EXPECT_EQ(cluster.nodes[2]->rendezvous()->AllWaiting().size(), 2u);
    if (is_ready) cluster.nodes[1]->rendezvous()->OnWorldReady(cluster.nodes[1]->formed[0]);
    cluster.nodes[1]->rendezvous()->Leave(2);
    EXPECT_EQ(cluster.wire.empty(), is_ready);
    cluster.Run();
    EXPECT_EQ(cluster.nodes[2]->rendezvous()->AllWaiting().size(), is_ready ? 2u : 1u);
  }
}

// Why: a faulty node must not use up everyone's room.
TEST(RendezvousTest, ANodeAnnouncesOnlySoManyRanks) {
  Cluster cluster(3);
  Cluster::Node& first = *cluster.nodes[0];
  v1::RankAnnounced announced = Claim({"ann", ""}, 0, 2);
  for (std::size_t i = 0; i <= Rendezvous::kWaitingPerNodeMax; ++i) {
    announced.set_job("job " + std::to_string(i));
    announced.set_attempt(i + 1);
    first.rendezvous()->OnRankAnnounced(Id(2), announced);
  }
  EXPECT_EQ(first.rendezvous()->AllWaiting().size(), Rendezvous::kWaitingPerNodeMax);
  ASSERT_EQ(cluster.wire.size(), 1u);
  EXPECT_THAT(cluster.wire[0].body.world_refused().message(), HasSubstr("of that node"));
  first.rendezvous()->OnRankAnnounced(Id(3), announced);
  EXPECT_EQ(first.rendezvous()->AllWaiting().size(), Rendezvous::kWaitingPerNodeMax + 1);
  first.rendezvous()->OnNodeLost(Id(2));
  first.rendezvous()->OnRankAnnounced(Id(2), announced);
  EXPECT_EQ(first.rendezvous()->AllWaiting().size(), 2u);
}

TEST(RendezvousTest, ARankThatIsAnnouncedAgainCountsOnce) {
  Cluster cluster(3);
  Cluster::Node& first = *cluster.nodes[0];
  v1::RankAnnounced announced = Claim({"ann", "job"}, 0, 2);
  for (std::size_t i = 0; i <= Rendezvous::kWaitingPerNodeMax; ++i) {
    announced.set_attempt(i + 1);
    first.rendezvous()->OnRankAnnounced(Id(2), announced);
  }
  EXPECT_EQ(first.rendezvous()->AllWaiting().size(), 1u);
  EXPECT_TRUE(cluster.wire.empty());
}

TEST(RendezvousTest, IgnoresAWorldWhoseJobNoTerminalCouldShow) {
  Cluster cluster(2);
  for (const std::string& name : {std::string("\033[2J"), std::string(), std::string(201, 'x')}) {
    cluster.nodes[1]->rendezvous()->OnWorldFormedElsewhere(Id(1), WorldOfTwo(name));
  }
  EXPECT_TRUE(cluster.nodes[1]->formed.empty());
}

// Why: a process would otherwise get a world of a different size from its own; it keeps waiting,
// until its own deadline.
TEST(RendezvousTest, AWorldOfAnotherSizeIsNotThatOfAWaitingRank) {
  Cluster cluster(2);
  cluster.Attach(1, 1, 1, 3);
  const std::uint64_t attempt = cluster.wire.front().body.rank_announced().attempt();
  cluster.nodes[1]->rendezvous()->OnWorldFormedElsewhere(Id(1), WorldOfTwo("job", attempt));
  ASSERT_EQ(cluster.nodes[1]->last.size(), 2u);
  EXPECT_EQ(cluster.nodes[1]->last[1].session, 0u);
  cluster.nodes[1]->rendezvous()->OnTime(1'000'000'000);
  EXPECT_EQ(cluster.nodes[1]->refused[1].code, FailureCode::kDeadlineExceeded);
}

// Why: "ranks had not joined" would make people look for processes that are all running.
TEST(RendezvousTest, SaysAtTheDeadlineThatAllAreThereAndWhoShouldHaveFormedTheJob) {
  Cluster cluster(2);
  cluster.Attach(0, 1, 0, 2);
  cluster.Run();
  cluster.Attach(1, 2, 1, 2);  // Its message is lost.
  cluster.nodes[1]->rendezvous()->OnTime(1'000'000'000);
  EXPECT_THAT(cluster.nodes[1]->refused[2].message,
              testing::AllOf(HasSubstr("all 2 ranks are known"), HasSubstr("node-1"),
                             testing::Not(HasSubstr("had not joined"))));
}

// Why: if all give up within milliseconds of each other, the last one named all others as ranks
// that had not joined, and so hid the missing one.
TEST(RendezvousTest, DoesNotSayAtTheDeadlineThatWhoGaveUpHadNotCome) {
  Cluster cluster(2);
  cluster.Attach(0, 1, 0, 4);
  cluster.Attach(1, 2, 1, 4);
  cluster.Attach(1, 3, 2, 4);
  cluster.Run();
  cluster.nodes[0]->rendezvous()->OnTime(1'000'000'000);
  EXPECT_THAT(cluster.nodes[0]->refused[1].message, HasSubstr(" rank 3 of 4 had not joined:"));
  cluster.Run();
  cluster.nodes[1]->rendezvous()->Leave(2);
  cluster.nodes[1]->rendezvous()->OnTime(1'000'000'000);
  EXPECT_THAT(cluster.nodes[1]->refused[3].message,
              HasSubstr(" rank 3 of 4 had not joined (ranks 0, 1 had, but gave up or exited):"));
}

// How: rank 1's message is lost, so that rank 0's node never forms the job, and rank 0 gives up
// first.
TEST(RendezvousTest, SaysWhoGaveUpWhereNobodyElseIsMissingAndForgetsItWithTheJob) {
  Cluster cluster(2);
  cluster.Attach(1, 2, 1, 2);
  cluster.wire.clear();
  cluster.Attach(0, 1, 0, 2);
  cluster.Run();
  cluster.nodes[0]->rendezvous()->Leave(1);
  cluster.Run();
  Cluster::Node& other = *cluster.nodes[1];
  other.rendezvous()->OnTime(1'000'000'000);
  EXPECT_THAT(cluster.nodes[1]->refused[2].message,
              HasSubstr(" rank 0 of 2 had joined, but gave up or exited"));
  cluster.Attach(1, 3, 1, 2);
  other.rendezvous()->OnTime(1'000'000'000);
  EXPECT_THAT(cluster.nodes[1]->refused[3].message, HasSubstr(" rank 0 of 2 had not joined:"));
}

// Why: a neighbour may announce and withdraw any number of ranks; records of those that left are
// bounded.
TEST(RendezvousTest, RanksThatLeftAreNotKeptWithoutBound) {
  Cluster cluster(2);
  Cluster::Node& here = *cluster.nodes[0];
  const auto come = [&](const std::string& job, std::uint32_t rank, std::uint64_t attempt) {
    v1::RankAnnounced announced;
    announced.set_job(job);
    announced.set_user("ann");
    announced.set_rank(rank);
    announced.set_size(Rendezvous::kSizeMax);
    announced.set_attempt(attempt);
    here.rendezvous()->OnRankAnnounced(Id(2), announced);
  };
  const auto go = [&](const std::string& job, std::uint64_t attempt) {
    v1::RankWithdrawn withdrawn;
    withdrawn.set_job(job);
    withdrawn.set_user("ann");
    withdrawn.set_attempt(attempt);
    here.rendezvous()->OnRankWithdrawn(Id(2), withdrawn);
  };
  for (int job = 0; job < 3; ++job) {
    const std::string name = "job-" + std::to_string(job);
    if (job == 1) cluster.Attach(0, 1, 1, Rendezvous::kSizeMax, name);
    come(name, 0, 1);
    for (std::uint32_t rank = 2; rank < Rendezvous::kSizeMax; ++rank) {
      come(name, rank, rank);
      go(name, rank);
    }
    EXPECT_EQ(here.rendezvous()->left_count(),
              job == 0 ? 0u : std::size_t{Rendezvous::kSizeMax} - 2)
        << name;
  }
  here.rendezvous()->OnTime(1'000'000'000);
  EXPECT_EQ(cluster.nodes[0]->refused.count(1), 1u);
}

// Why: decisions about a daemon's ranks must not be applied to announcements of its next process,
// which has a place in no world.
// How: a node learns of a world with ranks that were never announced to it; their node starts
// again.
TEST(RendezvousTest, AnAttemptOfARestartedDaemonIsNoneOfItsFormerOnes) {
  Cluster cluster(2);
  Cluster::Node former(cluster, 1);
  former.Meet(*cluster.nodes[1]);
  former.rendezvous()->Attach(1, Claim({"ann", "job"}, 0, 1, 1000), 1'000'000'000, 0);
  std::erase_if(cluster.wire,
                [](const auto& message) { return message.body.has_rank_announced(); });
  cluster.Run();  // The world of one rank, which all nodes learn.
  Cluster::Node next(cluster, 1, /*incarnation=*/std::uint64_t{77} << 40);
  next.rendezvous()->Attach(1, Claim({"ann", "job"}, 0, 2, 2000), 1'000'000'000, 0);
  cluster.Run();
  EXPECT_EQ(cluster.nodes[1]->rendezvous()->AllWaiting().size(), 1u);
}

// Why: the third node loses its power and comes back. The first one has noticed and forms a job
// with it; the second one still waits for the daemon that has ended, and fails all groups with that
// node once it learns of the restart. The new job would be among them: ended by the loss of a
// daemon that it never used.
class RestartTest : public testing::Test {
 protected:
  RestartTest() {
    cluster.nodes[2] = std::make_unique<Cluster::Node>(cluster, 3, std::uint64_t{77} << 40);
    for (const std::size_t other : {std::size_t{0}, std::size_t{1}}) {
      cluster.nodes[2]->Meet(*cluster.nodes[other]);
    }
    cluster.nodes[0]->rendezvous()->OnNodeLost(Id(3));
    cluster.nodes[0]->Meet(*cluster.nodes[2]);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      cluster.Attach(static_cast<int>(rank), 1, rank, 3);
    cluster.Run();
  }
  Cluster cluster{3};
  Cluster::Node& unaware = *cluster.nodes[1];
};

TEST_F(RestartTest, AWorldWaitsUntilTheLossOfTheFormerDaemonIsNoticed) {
  EXPECT_EQ(cluster.nodes[0]->formed.size(), 1u);
  EXPECT_EQ(cluster.nodes[2]->formed.size(), 1u);
  EXPECT_TRUE(unaware.formed.empty());
  unaware.rendezvous()->TakeHeld();  // Another node has appeared or disappeared.
  EXPECT_TRUE(unaware.formed.empty());
  unaware.rendezvous()->OnNodeLost(Id(3));
  unaware.rendezvous()->TakeHeld();
  EXPECT_EQ(unaware.formed, cluster.nodes[0]->formed);
  EXPECT_EQ(unaware.last[1].session, 1u);
}

TEST_F(RestartTest, AWorldThatHasFailedElsewhereIsMadeToFailHere) {
  unaware.rendezvous()->TakeHeld(cluster.nodes[0]->formed.front() + 1);
  EXPECT_TRUE(unaware.formed.empty()) << "another group";
  unaware.rendezvous()->TakeHeld(cluster.nodes[0]->formed.front());
  EXPECT_EQ(unaware.formed, cluster.nodes[0]->formed);
}

// Why: a node links to the new daemon and announces the ranks that wait here; then a world arrives
// that has the former daemon. The new one has no part in it, so it would show ranks that wait
// forever.
TEST(RendezvousTest, ADaemonThatWasRestartedHearsOfRanksWhoseWorldHasItsFormerSelf) {
  Cluster cluster(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.Attach(static_cast<int>(rank), 1, rank, 3);
  // Everything except the world, which is in transit when the third node ends.
  while (!cluster.wire.back().body.has_world_formed()) cluster.Step();
  const std::deque<Cluster::Message> worlds = std::exchange(cluster.wire, {});
  cluster.nodes[2] = std::make_unique<Cluster::Node>(cluster, 3, std::uint64_t{77} << 40);
  Cluster::Node& next = *cluster.nodes[2];
  next.Meet(*cluster.nodes[1]);
  cluster.nodes[1]->rendezvous()->OnNodeLost(Id(3));
  cluster.nodes[1]->Meet(next);
  cluster.Run();
  EXPECT_EQ(next.rendezvous()->AllWaiting().size(), 1u);
  cluster.nodes[1]->rendezvous()->OnWorldFormedElsewhere(Id(1), worlds.back().body.world_formed());
  cluster.nodes[1]->rendezvous()->TakeHeld(cluster.nodes[0]->formed.front());  // It has failed.
  cluster.Run();
  EXPECT_TRUE(next.rendezvous()->AllWaiting().empty());
}

// Why: a node outside a world is not informed that it has failed. If they were held there, the
// world's ranks would be shown as waiting forever.
TEST(RendezvousTest, ANodeOutsideAWorldTakesItAtOnceWhicheverDaemonItNames) {
  Cluster cluster(3);
  Cluster::Node& outside = *cluster.nodes[2];
  cluster.Attach(0, 1, 0, 2);
  cluster.Run();
  EXPECT_EQ(outside.rendezvous()->AllWaiting().size(), 1u);
  outside.rendezvous()->OnNodeLost(Id(2));
  outside.rendezvous()->OnNodeUp({Id(2), "node-2", "test", std::uint64_t{77} << 40});
  cluster.Attach(1, 1, 1, 2);
  cluster.Run();
  EXPECT_TRUE(outside.formed.empty());
  EXPECT_TRUE(outside.rendezvous()->AllWaiting().empty());
}

TEST_F(RestartTest, AWorldGoesWithTheNodeThatFormedIt) {
  unaware.rendezvous()->OnNodeLost(Id(1));
  unaware.rendezvous()->OnNodeLost(Id(3));
  unaware.rendezvous()->TakeHeld();
  EXPECT_TRUE(unaware.formed.empty());
  EXPECT_EQ(unaware.rendezvous()->AllWaiting().size(), 1u) << "its own rank waits for another";
}

// Why: the same two routes. A rank that withdraws and attaches again has a new attempt, which the
// earlier one's world does not concern.
TEST(RendezvousTest, AWorldOfAFormerAttemptLeavesTheNewOneWaiting) {
  Cluster cluster(3);
  cluster.Attach(1, 1, 1, 2);
  cluster.Run();
  cluster.nodes[2]->rendezvous()->OnWorldFormedElsewhere(Id(1), WorldOfTwo("job", 77));
  EXPECT_EQ(cluster.nodes[2]->rendezvous()->AllWaiting().size(), 1u);
}

// Why: a node with the key may appear and disappear under any number of names.
TEST(RendezvousTest, ForgetsTheNameOfANodeThatIsLost) {
  Cluster cluster(2);
  EXPECT_EQ(cluster.nodes[0]->rendezvous()->NodeName(Id(2)), "node-2");
  cluster.nodes[0]->rendezvous()->OnNodeLost(Id(2));
  EXPECT_EQ(cluster.nodes[0]->rendezvous()->NodeName(Id(2)), Id(2).ToString());
}

TEST(RendezvousTest, IgnoresAWorldThatIsNotItsSendersToForm) {
  Cluster cluster(2);
  cluster.Attach(0, 1, 0, 2);
  cluster.nodes[0]->rendezvous()->OnWorldFormedElsewhere(Id(2), WorldOfTwo("job"));
  EXPECT_TRUE(cluster.nodes[0]->formed.empty());
}

// Why: status shows names; a name that is cut inside a character would make the whole reply
// unreadable. Three bytes for each character, so that the bound falls inside one.
TEST(RendezvousTest, CutsAPeersWordsBetweenLetters) {
  Cluster cluster(1);
  std::string long_name;
  for (int i = 0; i < 100; ++i) long_name += "\u20ac";
  v1::RankAnnounced announced = Claim({"ann", "job"}, 0, 2);
  announced.set_program(long_name);
  cluster.nodes[0]->rendezvous()->OnRankAnnounced(Id(2), announced);
  const auto waiting = cluster.nodes[0]->rendezvous()->AllWaiting();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].claim.program(), long_name.substr(0, 198));
}

}  // namespace
}  // namespace mlxcomm::jobs::rendezvous_test

// Ranks of one launch that wait under several names are united, or both sides learn which variable
// differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/daemon/jobs/rendezvous_cluster.h"

namespace mlxcomm::jobs::rendezvous_test {
namespace {

using testing::HasSubstr;

void AttachAs(Cluster& cluster, std::size_t node, std::uint64_t session, std::uint32_t rank,
              const std::string& job, const std::string& named_by, std::uint32_t size = 2,
              const std::string& user = "ann") {
  cluster.nodes[node]->rendezvous()->Attach(session, Claim({user, job}, rank, size, 1000, named_by),
                                            1'000'000'000, 0);
  cluster.Run();
}

// Why: if a variable differs between the ranks of one launch, each waits in its own job.
// How: the two nodes have one rank each, then all ranks of a second launch.
TEST(RendezvousPartsTest, NamesTheOtherHalfOfAJobOnBothSidesAndWhatDiffers) {
  Cluster cluster(2);
  const auto other_half = [&](std::size_t node, std::uint64_t session) {
    return cluster.nodes[node]->rendezvous()->DescribeOtherHalf(session);
  };
  AttachAs(cluster, 0, 1, 0, "mlx-1", "HOSTS=aa PORT=11");
  EXPECT_EQ(other_half(0, 1), "");
  AttachAs(cluster, 1, 1, 1, "mlx-2", "HOSTS=aa PORT=22");
  EXPECT_EQ(other_half(0, 1),
            "job mlx-1 (rank 0) and job mlx-2 (rank 1) look like parts of one job of 2 ranks: PORT "
            "must be the "
            "same on all, and is not; MLXCOMM_JOB=NAME on all ranks settles it");
  EXPECT_EQ(other_half(1, 1),
            "job mlx-2 (rank 1) and job mlx-1 (rank 0) look like parts of one job of 2 ranks: PORT "
            "must be the "
            "same on all, and is not; MLXCOMM_JOB=NAME on all ranks settles it");
  cluster.nodes[0]->rendezvous()->OnTime(2'000'000'000);
  EXPECT_THAT(cluster.nodes[0]->refused[1].message,
              HasSubstr("rank 1 of 2 had not joined: job mlx-1 (rank 0)"));

  // No rank of another user, launcher or size, none with an explicit name, and no rank twice.
  AttachAs(cluster, 0, 2, 0, "mlx-1", "PORT=11");
  EXPECT_NE(other_half(0, 2), "");
  AttachAs(cluster, 0, 3, 0, "mlx-3", "PORT=33");
  EXPECT_EQ(other_half(0, 2), "") << "two launches";
  cluster.nodes[0]->rendezvous()->Leave(3);
  cluster.nodes[1]->rendezvous()->Leave(1);
  cluster.Run();
  AttachAs(cluster, 1, 2, 1, "mlx-2", "PORT=22", 2, "bob");
  AttachAs(cluster, 1, 3, 1, "mlx-3", "PORT=22", 3);
  AttachAs(cluster, 1, 4, 1, "pmi-2", "PORT=22");
  AttachAs(cluster, 1, 5, 1, "mlx-5", "");
  EXPECT_EQ(other_half(0, 2), "");
}

// Why: rank 0's machine is "localhost" to itself and 10.0.0.1 to the others.
TEST(RendezvousPartsTest, RanksThatCallTheirOwnMachineLocalhostTakeTheOthersName) {
  for (const int first : {0, 1}) {
    Cluster cluster(2);
    for (const int node : {first, 1 - first}) {
      const std::string job = node == 0 ? "ranks-localhost,1" : "ranks-10.0.0.1,1";
      const std::string named_by = node == 0 ? "ADDR=*cd*ab* PORT=1" : "ADDR=ab PORT=1";
      for (std::uint32_t rank = 2 * static_cast<std::uint32_t>(node), i = 0; i < 2; ++rank, ++i) {
        AttachAs(cluster, static_cast<std::size_t>(node), rank + 1, rank, job, named_by, 4);
      }
    }
    for (const auto& node : cluster.nodes) {
      ASSERT_EQ(node->formed.size(), 1u) << first;
      EXPECT_EQ(node->last_job, (JobId{"ann", "ranks-10.0.0.1,1"}));
      EXPECT_TRUE(node->rendezvous()->AllWaiting().empty());
      EXPECT_EQ(node->rendezvous()->NextDeadline(), Rendezvous::kNever);
      EXPECT_TRUE(node->refused.empty());
    }
  }
}

// Why: two launches with the usual port on other machines, one of which calls its machine
// localhost.
TEST(RendezvousPartsTest, LocalhostIsNotAnotherMachine) {
  Cluster cluster(2);
  AttachAs(cluster, 1, 2, 1, "ranks-10.0.0.7,1", "ADDR=ef PORT=1");
  AttachAs(cluster, 0, 1, 0, "ranks-localhost,1", "ADDR=*cd*ab* PORT=1");
  EXPECT_TRUE(cluster.nodes[0]->formed.empty());
  EXPECT_THAT(cluster.nodes[0]->rendezvous()->DescribeOtherHalf(1),
              HasSubstr("ADDR must be the same"));
}

// Why: only rank 0's machine may call itself so.
TEST(RendezvousPartsTest, RanksWithoutRank0AreNotMoved) {
  Cluster cluster(2);
  AttachAs(cluster, 1, 1, 0, "ranks-10.0.0.1,1", "ADDR=ab PORT=1");
  AttachAs(cluster, 0, 2, 1, "ranks-localhost,1", "ADDR=*ab* PORT=1");
  EXPECT_TRUE(cluster.nodes[0]->formed.empty());
}

}  // namespace
}  // namespace mlxcomm::jobs::rendezvous_test

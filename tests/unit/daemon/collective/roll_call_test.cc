// Waits without a deadline: they last as long as an awaited rank may still come, and end when none
// will.
#include "daemon/collective/roll_call.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

#include "tests/unit/daemon/collective/calls.h"
#include "tests/unit/daemon/collective/numbered_node.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"

namespace mlxcomm::collective::roll_call_test {
namespace {

using testing::HasSubstr;
using Prospect = RollCall::Prospect;

constexpr std::uint64_t kLong = 1'000'000'000;

// Four ranks on two nodes; the first asks.
class JudgeTest : public testing::Test {
 protected:
  JudgeTest()
      : layout({{NumberedNode(1), "a", 10},
                {NumberedNode(1), "a", 11},
                {NumberedNode(2), "b", 12},
                {NumberedNode(2), "b", 13}},
               NumberedNode(1)),
        roll_call(layout) {}
  static v1::RankWait Waits(std::uint32_t rank, const std::vector<std::uint32_t>& awaited) {
    v1::RankWait wait = Works(rank);
    wait.set_waits(true);
    wait.set_waited_ms(kLong / 1'000'000);
    wait.mutable_awaited()->Add(awaited.begin(), awaited.end());
    return wait;
  }
  static v1::RankWait Works(std::uint32_t rank) {
    v1::RankWait wait;
    wait.set_rank(rank);
    return wait;
  }
  static RankWaits All(std::initializer_list<v1::RankWait> waits) {
    return {waits.begin(), waits.end()};
  }
  Prospect Of(std::initializer_list<v1::RankWait> here, std::initializer_list<v1::RankWait> there) {
    const std::uint64_t number = roll_call.Begin(All(here), now_ns);
    roll_call.OnAnswer(1, number, All(there));
    EXPECT_TRUE(roll_call.CloseIfDue(now_ns));
    const auto& awaited = here.begin()->awaited();
    return roll_call.Judge({awaited.begin(), awaited.end()}, kLong).prospect;
  }
  GroupLayout layout;
  RollCall roll_call;
  std::uint64_t now_ns = 0;
};

TEST_F(JudgeTest, ARankThatWaitsForNothingMayCome) {
  EXPECT_EQ(Of({Waits(0, {2}), Works(1)}, {Works(2), Works(3)}), Prospect::kMayCome);
  EXPECT_EQ(Of({Waits(0, {2}), Works(1)}, {Waits(2, {3}), Works(3)}), Prospect::kMayCome)
      << "through another";
}

TEST_F(JudgeTest, ACircleNeverEnds) {
  EXPECT_EQ(Of({Waits(0, {2}), Works(1)}, {Waits(2, {0}), Works(3)}), Prospect::kAllWait);
  EXPECT_EQ(Of({Waits(0, {2, 3}), Works(1)}, {Waits(2, {3}), Waits(3, {2})}), Prospect::kAllWait);
  EXPECT_THAT(roll_call.Judge({3}, kLong).waiting, testing::ElementsAre(2, 3));
  EXPECT_FALSE(roll_call.Judge({3}, kLong).all_send);
  v1::RankWait sends = Waits(2, {0});
  sends.set_sends(true);
  EXPECT_EQ(Of({Waits(0, {2}), Works(1)}, {sends, Works(3)}), Prospect::kAllWait);
  EXPECT_FALSE(roll_call.Judge({2}, kLong).all_send) << "rank 0 has posted a receive, and computes";
}

TEST_F(JudgeTest, ARankThatHasJustStartedToWaitMayCome) {
  v1::RankWait fresh = Waits(2, {0});
  fresh.set_waited_ms(kLong / 1'000'000 - 1);
  EXPECT_EQ(Of({Waits(0, {2}), Works(1)}, {fresh, Works(3)}), Prospect::kMayCome);
}

// Why: a stopped process does not come, whichever others may.
TEST_F(JudgeTest, AStoppedRankIsNamed) {
  v1::RankWait stopped = Works(3);
  stopped.set_stopped(true);
  EXPECT_EQ(Of({Waits(0, {2, 3}), Works(1)}, {Works(2), stopped}), Prospect::kMayCome)
      << "it may be stopped only briefly";
  now_ns = kLong - 1;
  EXPECT_EQ(Of({Waits(0, {2, 3}), Works(1)}, {Works(2), stopped}), Prospect::kMayCome)
      << "not for longer than operations last";
  now_ns = kLong;
  EXPECT_EQ(Of({Waits(0, {2, 3}), Works(1)}, {Works(2), stopped}), Prospect::kStopped);
  EXPECT_EQ(roll_call.Judge({3}, kLong).rank, 3u);
  stopped.set_waits(true);
  stopped.add_awaited(2);
  EXPECT_EQ(Of({Waits(0, {2, 3}), Works(1)}, {Works(2), stopped}), Prospect::kMayCome)
      << "it has called";
}

TEST_F(JudgeTest, ARankThatIsNotReportedMayCome) {
  const std::uint64_t number = roll_call.Begin(All({Waits(0, {2}), Works(1)}), 0);
  EXPECT_FALSE(roll_call.CloseIfDue(RollCall::kAnswerWaitNs - 1));
  EXPECT_TRUE(roll_call.CloseIfDue(RollCall::kAnswerWaitNs));
  EXPECT_EQ(roll_call.Judge({2}, kLong).prospect, Prospect::kMayCome);
  roll_call.OnAnswer(1, number, All({Waits(2, {0})}));  // Too late.
  EXPECT_EQ(roll_call.Judge({2}, kLong).prospect, Prospect::kMayCome);
}

// Why: a node may lie about other nodes' ranks, or answer an old roll call.
TEST_F(JudgeTest, ANodeReportsItsOwnRanksAndAnswersTheCurrentCall) {
  const std::uint64_t number = roll_call.Begin(All({Waits(0, {1}), Works(1)}), 0);
  roll_call.OnAnswer(1, number - 1, All({Waits(2, {0})}));
  EXPECT_FALSE(roll_call.CloseIfDue(0));
  roll_call.OnAnswer(1, number, All({Waits(1, {0}), Waits(9999, {0})}));
  EXPECT_TRUE(roll_call.CloseIfDue(0));
  EXPECT_EQ(roll_call.Judge({1}, kLong).prospect, Prospect::kMayCome);
  EXPECT_EQ(roll_call.Judge({9999}, kLong).prospect, Prospect::kAllWait) << "an invalid rank";
}

Call ByLiveness(Call call) {
  call.timeout_ns = kLong;
  call.by_liveness = true;
  return call;
}

class WaitTest : public testing::TestWithParam<int> {  // The number of nodes, for two ranks.
 protected:
  WaitTest() : cluster(GetParam(), 2 / GetParam(), 5) {}
  // A waiting rank asks about it every minute.
  void Pass(int times, std::uint64_t ns) {
    for (int i = 0; i < times; ++i) {
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        Group& group = *cluster.core(cluster.node_of(rank)).Find(SimulatedCluster::kGroup);
        if (rank != awake) group.DescribeWait(rank + 1, 1, cluster.now_ns);
        cluster.Carry(cluster.node_of(rank));
        cluster.Run();
      }
      cluster.Advance(ns);
    }
  }
  std::uint32_t awake = 99;
  SimulatedCluster cluster;
  std::int32_t in[100'000] = {};
  std::int32_t out[2][100'000] = {};
};

// Why: a rank that downloads for ten minutes before a barrier must not end the others.
TEST_P(WaitTest, LastsForAsLongAsTheOtherMayCome) {
  cluster.Submit(0, ByLiveness(AllReduce(in, out[0], 4)));
  cluster.Run();
  Pass(100, 60 * kLong);
  EXPECT_TRUE(cluster.completions[1].empty());
  cluster.Submit(1, ByLiveness(AllReduce(in, out[1], 4)));
  cluster.Run();
  for (const SessionId session : {1u, 2u}) {
    ASSERT_EQ(cluster.completions[session].size(), 1u);
    EXPECT_TRUE(cluster.completions[session][0].failure.ok());
  }
}

TEST_P(WaitTest, EndsIfBothWaitForWhatTheOtherNeverCalls) {
  Call send = ByLiveness(Plain(OperationKind::kSend, in, nullptr, 100'000));
  send.peer_rank = 1;
  cluster.Submit(0, send);
  cluster.Submit(1, ByLiveness(AllReduce(in, out[1], 4)));
  cluster.Run();
  Pass(1, kLong / 2);
  EXPECT_TRUE(cluster.completions[1].empty() && cluster.completions[2].empty());
  Pass(10, 60 * kLong);
  for (const SessionId session : {1u, 2u}) {
    ASSERT_EQ(cluster.completions[session].size(), 1u) << "rank " << session - 1 << " hangs";
    const Failure& failure = cluster.completions[session][0].failure;
    EXPECT_EQ(failure.code, FailureCode::kDeadlineExceeded) << failure.message;
    EXPECT_THAT(failure.message, HasSubstr("as do all ranks that it waits for"));
  }
}

// Why: ranks that all send first and then receive wait forever. Users see it after two seconds, not
// when the wait fails after minutes.
TEST_P(WaitTest, ACircleOfMessagesIsNamedWhileItLasts) {
  for (const std::uint32_t rank : {0u, 1u}) {
    Call send = ByLiveness(Plain(OperationKind::kSend, in, nullptr, 100'000));
    send.peer_rank = 1 - rank;
    send.timeout_ns = 300 * kLong;
    cluster.Submit(rank, send);
  }
  cluster.Run();
  const auto circle = [&](std::uint32_t rank) {
    Group& group = *cluster.core(cluster.node_of(rank)).Find(SimulatedCluster::kGroup);
    std::string found = group.DescribeWait(rank + 1, 1, cluster.now_ns).circle;
    cluster.Carry(cluster.node_of(rank));
    cluster.Run();
    return found;
  };
  EXPECT_EQ(circle(0) + circle(1), "") << "they have just begun";
  cluster.Advance(kLong);
  for (const std::uint32_t rank : {0u, 1u}) circle(rank);
  cluster.Advance(kLong / 2);
  for (const std::uint32_t rank : {0u, 1u}) {
    EXPECT_EQ(circle(rank), "ranks 0, 1 of group test wait for each other (0 for 1, 1 for 0)");
  }
  EXPECT_TRUE(cluster.completions[1].empty() && cluster.completions[2].empty());
}

// Why: the rank of a send that is no longer awaited computes; `status` blamed its receiver for
// holding it up.
TEST_P(WaitTest, ASendThatItsProcessDoesNotAskAboutIsNoWait) {
  Call send = ByLiveness(Plain(OperationKind::kSend, in, nullptr, 100'000));
  send.peer_rank = 1;
  cluster.Submit(0, send);
  cluster.Run();
  const Group& group = *cluster.core(cluster.node_of(0)).Find(SimulatedCluster::kGroup);
  EXPECT_TRUE(group.Activity(cluster.now_ns)[0].busy);
  EXPECT_FALSE(group.Activity(cluster.now_ns + 4 * kLong)[0].busy);
}

// Why: a message waits for its other end, whichever other ranks are on that node.
TEST(MessageWaitTest, IsForTheOtherEndOnly) {
  SimulatedCluster cluster({0, 1, 1}, 5);
  cluster.stopped.insert(102);  // Rank 2's process, on rank 1's node.
  std::int32_t out[4] = {};
  Call receive = ByLiveness(Plain(OperationKind::kReceive, nullptr, out, 4));
  receive.peer_rank = 1;
  cluster.Submit(0, receive);
  cluster.Run();
  Group& group = *cluster.core(0).Find(SimulatedCluster::kGroup);
  for (int i = 0; i < 20; ++i) {
    const std::string awaited = group.DescribeWait(1, 1, cluster.now_ns).text;
    EXPECT_EQ(awaited.find("rank 2"), std::string::npos) << awaited;
    cluster.Advance(60 * kLong);
  }
  EXPECT_TRUE(cluster.completions[1].empty());
}

TEST_P(WaitTest, EndsIfTheOtherIsStopped) {
  cluster.stopped.insert(101);  // Rank 1's process.
  cluster.Submit(0, ByLiveness(AllReduce(in, out[0], 4)));
  cluster.Run();
  Pass(5, 60 * kLong);
  ASSERT_EQ(cluster.completions[1].size(), 1u) << "hangs";
  const Failure& failure = cluster.completions[1][0].failure;
  EXPECT_EQ(failure.code, FailureCode::kDeadlineExceeded);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(failure.message, HasSubstr("is stopped"));
}

// Why: one of its threads computes, and will make the call that the other waits for.
TEST_P(WaitTest, LastsIfTheOtherHasAnOperationInFlightAndDoesNotWait) {
  awake = 1;
  Call send = ByLiveness(Plain(OperationKind::kSend, in, nullptr, 100'000));
  send.peer_rank = 0;
  cluster.Submit(1, send);
  cluster.Submit(0, ByLiveness(AllReduce(in, out[0], 4)));
  cluster.Run();
  Pass(10, 60 * kLong);
  EXPECT_TRUE(cluster.completions[1].empty());
}

INSTANTIATE_TEST_SUITE_P(Nodes, WaitTest, testing::Values(1, 2));

}  // namespace
}  // namespace mlxcomm::collective::roll_call_test

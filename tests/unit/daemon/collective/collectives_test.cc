// Every way in which a group can fail, in every layout. See operations_test.cc and numbers_test.cc
// for values.
#include <gmock/gmock.h>

#include <cstdint>

#include "tests/unit/daemon/collective/calls.h"
#include "tests/unit/daemon/collective/numbered_node.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"

namespace mlxcomm::collective::collectives_test {
namespace {

using testing::HasSubstr;

struct Layout {
  int nodes;
  int ranks_per_node;
};

// One core; the test plays its peer on the other node: rank 0 here, rank 1 there.
class OneCoreTest : public testing::Test {
 protected:
  OneCoreTest() : core(NumberedNode(1), scratch) {
    EXPECT_TRUE(core.AddGroup(7, "test", {{NumberedNode(1), "node-0", 1}, {peer, "node-1", 2}}));
  }
  void Submit(OperationKind kind, std::uint32_t tag) {
    Call call = Plain(kind, data.data(), data.data(), data.size());
    call.group = 7;
    call.session = 1;
    call.peer_rank = 1;
    call.tag = tag;
    call.timeout_ns = 1'000'000'000;
    call.input_bytes_available = data.size() * 4;
    core.Submit(call, 1);
  }
  wire::FrameHeader Frame(std::uint32_t source, std::uint32_t destination,
                          std::uint32_t tag) const {
    wire::FrameHeader frame = wire::HeaderFor({7, 0, source, destination, tag});
    frame.digest =
        Signature{OperationKind::kSend, DataType::kInt32, ReduceOperator::kNone, data.size()}
            .Digest();
    return frame;
  }
  std::size_t Count(Action::Kind kind) {
    return static_cast<std::size_t>(
        std::count_if(core.actions().begin(), core.actions().end(),
                      [kind](const Action& action) { return action.kind == kind; }));
  }
  std::size_t Count(wire::FrameType type) {
    return static_cast<std::size_t>(std::ranges::count(
        core.actions(), type, [](const Action& action) { return action.frame.type; }));
  }
  const NodeId peer = NumberedNode(2);
  SimulatedCluster::CountedScratch scratch;
  Collectives core;
  std::vector<std::int32_t> data = std::vector<std::int32_t>(1);
};

// Why: a receiver that has all of a message may leave before its acknowledgement arrives; nothing
// is missing then.
TEST_F(OneCoreTest, SendSucceedsWhenItsReceiverLeavesBeforeTheAcknowledgement) {
  data.resize(50'000);
  Submit(OperationKind::kSend, 0);
  ASSERT_TRUE(core.OnGrant(peer, Frame(0, 1, 0), 2));
  ActionQueue sent;
  sent.swap(core.actions());
  ASSERT_FALSE(sent.empty());
  core.OnDetached(peer, 7, 1, 0, 3);
  EXPECT_TRUE(core.actions().empty()) << "it failed, though nothing is missing";
  for (const Action& action : sent) core.OnDataReleased(action.cookie);
  ASSERT_EQ(core.actions().size(), 1u);
  EXPECT_EQ(core.actions()[0].kind, Action::Kind::kComplete);
  EXPECT_TRUE(core.actions()[0].failure.ok()) << core.actions()[0].failure.message;
}

// Why: the daemon of ranks that have received everything may end with them before it has
// acknowledged. Nothing would release those frames, and the send would hang.
TEST_F(OneCoreTest, SendSucceedsWhenTheDaemonOfAReceiverThatLeftIsLost) {
  data.resize(50'000);
  Submit(OperationKind::kSend, 0);
  ASSERT_TRUE(core.OnGrant(peer, Frame(0, 1, 0), 2));
  ASSERT_EQ(Count(wire::FrameType::kData), 1u);
  core.OnDetached(peer, 7, 1, 0, 3);
  core.OnNodeLost(peer, "it has ended", 4);
  ASSERT_EQ(Count(Action::Kind::kComplete), 1u);
  EXPECT_TRUE(core.actions().back().failure.ok()) << core.actions().back().failure.message;
}

// Why: a lost node's rails never report that they no longer write into a buffer; its caller would
// hang.
TEST_F(OneCoreTest, FailedReceiveIsAnsweredWhenTheNodeOfItsSenderIsLost) {
  data.resize(50'000);
  Submit(OperationKind::kReceive, 0);
  v1::FailureReport report;
  Write(7, {FailureCode::kRankLost, 1, "gone"}, report);
  core.OnReport(peer, report, 2);
  ASSERT_EQ(Count(Action::Kind::kWithdraw), 1u);
  ASSERT_EQ(Count(Action::Kind::kComplete), 0u);
  core.OnNodeLost(peer, "it has ended", 3);
  EXPECT_EQ(Count(Action::Kind::kComplete), 1u);
}

// Why: a step that was solicited while it waited for credit leaves its turn behind; the next
// operation in the same place must not take it, or it requests one frame twice.
TEST_F(OneCoreTest, CreditTurnOfAnEndedOperationMovesNoOther) {
  for (std::uint32_t tag = 0; tag <= kEagerCredits; ++tag) Submit(OperationKind::kSend, tag);
  ASSERT_EQ(Count(wire::FrameType::kEager), kEagerCredits);
  ASSERT_TRUE(core.OnGrant(peer, Frame(0, 1, kEagerCredits), 2));
  ASSERT_EQ(Count(Action::Kind::kComplete), kEagerCredits + 1);
  Submit(OperationKind::kReceive, 0);
  ASSERT_TRUE(core.OnCredit(peer, 7, kEagerCredits));
  const std::vector<std::byte> payload(4);
  for (std::uint32_t tag = 1; tag <= kEagerCredits; ++tag) {
    ASSERT_TRUE(core.OnEager(peer, Frame(1, 0, tag), payload, 3));
  }
  EXPECT_EQ(Count(wire::FrameType::kGrant), 1u);
}

// Why: a message that no rank received must not keep the group forever.
TEST_F(OneCoreTest, GroupIsOverAlthoughAMessageWasNeverReceived) {
  const std::vector<std::byte> payload(4);
  ASSERT_TRUE(core.OnEager(peer, Frame(1, 0, 3), payload, 1));
  EXPECT_FALSE(core.RemoveIfOver(7));
  core.OnDetached(peer, 7, 1, 0, 2);
  core.Find(7)->OnLocalRankDetached(0, 3);
  EXPECT_TRUE(core.RemoveIfOver(7));
}

// Why: a peer chooses the operation that a report names, and it is looked up here.
TEST_F(OneCoreTest, ReportAboutUnknownRanksFailsTheGroupAndNothingElse) {
  v1::FailureReport report;
  Write(7, {FailureCode::kRankLost, 1, "gone"}, report);
  report.mutable_operation()->set_point_to_point(true);
  report.mutable_operation()->set_source_rank(0xfffffff0);
  core.OnReport(peer, report, 2);
  EXPECT_EQ(core.Find(7)->failure().message, "gone");
}

// Why: a dropped frame is never resent, so its operation would hang silently; exceeding the limit
// must be an error. Local calls do not count.
TEST_F(OneCoreTest, PeerFarAheadFailsTheGroupWithAnError) {
  std::uint32_t tag = 0;
  for (; tag < 5000; ++tag) Submit(OperationKind::kReceive, tag);
  for (; !core.Find(7)->failed() && tag < 20'000; ++tag) {
    ASSERT_TRUE(core.OnGrant(peer, Frame(0, 1, tag), 2)) << tag;
  }
  EXPECT_EQ(tag, 5000 + 4096 + 1);
  EXPECT_EQ(core.Find(7)->failure().code, FailureCode::kResourceExhausted);
  EXPECT_EQ(Count(Action::Kind::kComplete), 5000u);
}

class FailureTest : public testing::TestWithParam<Layout> {
 protected:
  FailureTest() : cluster(GetParam().nodes, GetParam().ranks_per_node, 21) {
    data.assign(cluster.size(), std::vector<std::int32_t>(100'000, 1));
  }
  void SubmitAll(std::uint32_t first, std::uint32_t end, std::uint64_t count) {
    for (std::uint32_t rank = first; rank < end; ++rank) {
      cluster.Submit(rank, AllReduce(data[rank].data(), data[rank].data(), count));
    }
  }
  void ExpectAllFailed(FailureCode code, const std::string& text, std::uint32_t but) {
    for (std::uint32_t rank = 0; rank < cluster.size(); ++rank) {
      if (rank == but) continue;
      ASSERT_FALSE(cluster.completions[rank + 1].empty()) << "rank " << rank << " hangs";
      const auto& last = cluster.completions[rank + 1].back();
      EXPECT_EQ(last.failure.code, code) << last.failure.message;
      EXPECT_TRUE(last.group_failed);
      EXPECT_THAT(last.failure.message, HasSubstr(text));
    }
  }
  static constexpr std::uint32_t kNobody = 1000;
  SimulatedCluster cluster;
  std::vector<std::vector<std::int32_t>> data;
};

TEST_P(FailureTest, MismatchReportsEveryRanksCallToAll) {
  for (const std::uint64_t count : {8u, 100'000u}) {
    SimulatedCluster fresh(GetParam().nodes, GetParam().ranks_per_node, 1);
    std::swap(cluster, fresh);
    const std::uint32_t last = cluster.size() - 1;
    SubmitAll(0, last, count);
    cluster.Submit(last, AllReduce(data[last].data(), data[last].data(), count - 1));
    cluster.Run();
    ExpectAllFailed(FailureCode::kMismatch, "int32[" + std::to_string(count - 1) + "]", kNobody);
    ExpectAllFailed(FailureCode::kMismatch, "int32[" + std::to_string(count) + "]", kNobody);
    // The next call fails at once, on every rank.
    cluster.completions.clear();
    SubmitAll(0, cluster.size(), 4);
    ExpectAllFailed(FailureCode::kMismatch, "must call the same operations", kNobody);
    std::swap(cluster, fresh);
  }
}

TEST_P(FailureTest, DeadlineNamesTheRankThatDidNotCall) {
  const std::uint32_t last = cluster.size() - 1;
  SubmitAll(0, last, 100'000);
  cluster.Run();
  EXPECT_TRUE(cluster.completions.empty());
  cluster.Advance(1'000'000'001);
  ExpectAllFailed(FailureCode::kDeadlineExceeded, "rank " + std::to_string(last), last);
  EXPECT_EQ(cluster.completions[1].back().failure.rank, static_cast<std::int32_t>(last));
}

TEST_P(FailureTest, RankLostReachesEveryOtherRankInAnOperation) {
  const std::uint32_t last = cluster.size() - 1;
  SubmitAll(0, last, 100'000);
  cluster.Run();
  Collectives& core = cluster.core(cluster.node_of(last));
  core.Find(SimulatedCluster::kGroup)->OnLocalRankGone(last, "its process ended", cluster.now_ns);
  cluster.Carry(cluster.node_of(last));
  cluster.Run();
  ExpectAllFailed(FailureCode::kRankLost, "its process ended", last);
  EXPECT_EQ(cluster.completions[1].back().failure.rank, static_cast<std::int32_t>(last));
}

TEST_P(FailureTest, LostNodeFailsOperationsInFlightAndReleasesTheirBuffers) {
  if (GetParam().nodes == 1) return;  // No other node to lose.
  SubmitAll(0, cluster.size() - 1, 100'000);
  const int lost = cluster.node_of(cluster.size() - 1);
  cluster.LoseNode(lost);
  cluster.Run();
  for (std::uint32_t rank = 0; cluster.node_of(rank) != lost; ++rank) {
    ASSERT_EQ(cluster.completions[rank + 1].size(), 1u);
    EXPECT_EQ(cluster.completions[rank + 1][0].failure.code, FailureCode::kRankLost);
    EXPECT_FALSE(cluster.core(cluster.node_of(rank)).UsesSession(rank + 1));
  }
}

TEST_P(FailureTest, CallThatNeedsARankThatHasLeftFailsAtOnce) {
  const std::uint32_t last = cluster.size() - 1;
  cluster.core(cluster.node_of(last))
      .Find(SimulatedCluster::kGroup)
      ->OnLocalRankDetached(last, cluster.now_ns);
  cluster.Carry(cluster.node_of(last));
  cluster.Run();
  SubmitAll(0, last, 8);
  cluster.Run();
  ExpectAllFailed(FailureCode::kRankLost, "has left group test", last);
}

// Why: failures meet operations in states that no test would think of.
// How: after each number of steps a rank cancels, or its process ends, or the deadline passes.
TEST_P(FailureTest, AtEveryMomentAllRanksAreAnsweredOnceAndNothingIsLeft) {
  for (const FailureCode code :
       {FailureCode::kCancelled, FailureCode::kRankLost, FailureCode::kDeadlineExceeded}) {
    bool is_over = false;
    for (std::uint32_t moment = 0; !is_over; moment += 5) {
      SCOPED_TRACE(moment);
      SimulatedCluster fresh(GetParam().nodes, GetParam().ranks_per_node, moment);
      std::swap(cluster, fresh);
      const std::uint32_t last = cluster.size() - 1;
      const int node = cluster.node_of(last);
      SubmitAll(0, cluster.size(), 66'000);
      for (std::uint32_t i = 0; i < moment && !is_over; ++i) is_over = !cluster.RunOne();
      Group& group = *cluster.core(node).Find(SimulatedCluster::kGroup);
      if (code == FailureCode::kCancelled) group.Cancel(last + 1, 1, cluster.now_ns);
      if (code == FailureCode::kRankLost) group.OnLocalRankGone(last, "gone", cluster.now_ns);
      if (code == FailureCode::kDeadlineExceeded) cluster.Tick(1'000'000'001);
      cluster.Carry(node);
      cluster.Run();
      for (int i = 0; i < 2; ++i) cluster.Advance(Inquest::kReportWaitNs);
      for (std::uint32_t rank = 0; rank <= last; ++rank) {
        ASSERT_EQ(cluster.completions[rank + 1].size(), 1u) << "rank " << rank;
      }
      EXPECT_EQ(cluster.violations, 0u);
      for (int one = 0; one < GetParam().nodes; ++one) {
        EXPECT_EQ(cluster.scratch(one).used_bytes(), 0u);
        EXPECT_EQ(cluster.core(one).Find(SimulatedCluster::kGroup)->stashed_frames(), 0u);
      }
      std::swap(cluster, fresh);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(NodesTimesRanks, FailureTest,
                         testing::Values(Layout{1, 2}, Layout{1, 4}, Layout{2, 1}, Layout{2, 2},
                                         Layout{3, 1}, Layout{4, 2}));

// Why: a node that no longer needs an operation may get a request for it from a rank that calls
// another one. That is a mismatch, not a frame that fits nothing.
// How: the root scatters and is done; rank 2 sums instead, in many schedules.
TEST(CollectivesTest, FramesOfAnotherCallThanTheFinishedOneAreAMismatch) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    SimulatedCluster cluster(3, 1, seed);
    std::int32_t in[3] = {1, 2, 3};
    std::int32_t out[3][3] = {};
    cluster.Submit(2, AllReduce(in, out[2], 3));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      cluster.Submit(rank, Plain(OperationKind::kScatter, in, out[rank], 1));
    }
    cluster.Run();
    cluster.Advance(1'000'000'000);
    EXPECT_EQ(cluster.violations, 0u) << seed;
    ASSERT_EQ(cluster.completions[3].size(), 1u) << seed;
    EXPECT_EQ(cluster.completions[3][0].failure.code, FailureCode::kMismatch) << seed;
  }
}

// Why: if each rank waits for a message of another call or rank, no rank ever sees a different
// call; a deadline alone would not explain the failure.
// How: rank 3 waits for halves that are never sent, and the root for what 3 would have sent; the
// others have sent theirs and finished. A seed of the simulator found it.
TEST(CollectivesTest, CallsThatNeverMatchAreAMismatchAtTheirDeadline) {
  SimulatedCluster cluster(6, 1, 1);
  std::int32_t in = 1, out[6] = {};
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    Call call = AllReduce(&in, &out[rank], 1);
    if (rank != 3) call.signature.kind = OperationKind::kReduce;
    call.signature.plan = PlanKind::kHalvingDoubling;
    cluster.Submit(rank, call);
  }
  cluster.Run();
  cluster.Advance(1'000'000'001);
  for (const std::uint64_t rank : {0u, 3u}) {
    ASSERT_EQ(cluster.completions[rank + 1].size(), 1u);
    const Failure& failure = cluster.completions[rank + 1][0].failure;
    EXPECT_EQ(failure.code, FailureCode::kMismatch) << failure.message;
    EXPECT_EQ(failure.rank, 3);
    EXPECT_THAT(failure.message, HasSubstr("rank 3"));
  }
}

// Why: in an all_to_all_v each rank's call differs, and that is right.
TEST(CollectivesTest, DifferentTablesAreNoMismatchAtTheirDeadline) {
  SimulatedCluster cluster(3, 1, 1);
  std::int32_t in[3] = {}, out[3] = {};
  const std::uint64_t tables[2][6] = {{1, 0, 1, 1, 1, 0}, {1, 0, 0, 0, 0, 0}};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Call call = Plain(OperationKind::kAllToAllV, in, out, 0);
    call.counts = reinterpret_cast<const std::byte*>(tables[rank]);
    call.counts_bytes_available = sizeof tables[rank];
    cluster.Submit(rank, call);
  }
  cluster.Run();
  cluster.Advance(1'000'000'001);
  ASSERT_EQ(cluster.completions[1].size(), 1u);
  const Failure& failure = cluster.completions[1][0].failure;
  EXPECT_EQ(failure.code, FailureCode::kDeadlineExceeded) << failure.message;
  EXPECT_EQ(failure.rank, 2);
}

// Why: a peer's daemon is not trusted.
// How: frames that fit nothing are reported as such and change nothing.
TEST(CollectivesTest, FramesThatFitNothingAreRefused) {
  SimulatedCluster cluster(2, 1, 1);
  Collectives& core = cluster.core(0);
  const NodeId stranger = NumberedNode(99);
  const NodeId peer = NumberedNode(2);
  wire::FrameHeader frame;
  frame.group = SimulatedCluster::kGroup;
  frame.digest = 1;
  EXPECT_FALSE(core.OnGrant(stranger, frame, 0));
  EXPECT_FALSE(core.OnData(peer, frame, 0));
  EXPECT_FALSE(core.OnCredit(peer, frame.group, 1));
  frame.source_rank = 70;
  frame.destination_rank = 0;
  EXPECT_FALSE(core.OnGrant(peer, frame, 0));
  frame = {};
  frame.group = 12345;  // Removed, or never known: dropped.
  EXPECT_TRUE(core.OnEager(peer, frame, {}, 0));
  // More eager frames than credit.
  frame.group = SimulatedCluster::kGroup;
  frame.digest = 1;
  bool fine = true;
  for (std::uint32_t i = 0; i <= kEagerCredits; ++i) {
    frame.step = static_cast<std::uint16_t>(i);
    fine = core.OnEager(peer, frame, {}, 0);
  }
  EXPECT_FALSE(fine);
}

}  // namespace
}  // namespace mlxcomm::collective::collectives_test

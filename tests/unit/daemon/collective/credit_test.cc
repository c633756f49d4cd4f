// Small messages without credit: they wait and arrive, and nothing else hangs.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/unit/daemon/collective/calls.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"

namespace mlxcomm::collective::credit_test {
namespace {

// Why: with far more small messages than credits, none received yet, the sender must wait for
// credit, not overrun the receiver, and everything must arrive.
TEST(CreditTest, SmallSendsBeyondTheCreditWaitAndArriveInOrder) {
  SimulatedCluster cluster(2, 1, 9);
  constexpr std::int32_t kMessages = 100;
  std::vector<std::int32_t> in(kMessages), out(kMessages, -1);
  std::iota(in.begin(), in.end(), 0);
  for (int i = 0; i < kMessages; ++i) {
    Call send = Plain(OperationKind::kSend, &in[static_cast<std::size_t>(i)], nullptr, 1);
    send.peer_rank = 1;
    cluster.Submit(0, send);
  }
  cluster.Run();
  EXPECT_EQ(cluster.completions[1].size(), kEagerCredits);
  for (int i = 0; i < kMessages; ++i) {
    Call receive = Plain(OperationKind::kReceive, nullptr, &out[static_cast<std::size_t>(i)], 1);
    receive.peer_rank = 0;
    cluster.Submit(1, receive);
    cluster.Run();
  }
  EXPECT_EQ(out, in);
  EXPECT_EQ(cluster.violations, 0u);
  EXPECT_EQ(cluster.completions[1].size(), static_cast<std::size_t>(kMessages));
}

// Why: frames that are not needed yet hold all of the credit while the needed one waits at the
// sender; without solicitation this hangs.
TEST(CreditTest, ReceivesInReverseOrderOfSmallSendsGetTheirMessages) {
  SimulatedCluster cluster(2, 1, 9);
  constexpr std::uint32_t kMessages = 100;
  std::vector<std::int32_t> in(kMessages), out(kMessages, -1);
  std::iota(in.begin(), in.end(), 0);
  for (std::uint32_t tag = 0; tag < kMessages; ++tag) {
    Call send = Plain(OperationKind::kSend, &in[tag], nullptr, 1);
    send.peer_rank = 1;
    send.tag = tag;
    cluster.Submit(0, send);
  }
  cluster.Run();
  for (std::uint32_t tag = kMessages; tag-- > 0;) {
    Call receive = Plain(OperationKind::kReceive, nullptr, &out[tag], 1);
    receive.peer_rank = 0;
    receive.tag = tag;
    cluster.Submit(1, receive);
    cluster.Run();
    ASSERT_EQ(cluster.completions[2].size(), kMessages - tag) << "tag " << tag;
  }
  EXPECT_EQ(out, in);
  EXPECT_EQ(cluster.violations, 0u);
  EXPECT_EQ(cluster.completions[1].size(), kMessages);
}

// Why: a step that receives requests its frame when it may begin. If that were after its own send,
// two nodes without credit would wait for each other.
// How: both spend their credit on messages that are not needed yet; then a barrier, and a sum in
// place.
TEST(CreditTest, TwoNodesWithoutCreditFinishABarrierAndASumInPlace) {
  SimulatedCluster cluster(2, 1, 9);
  std::int32_t out = 5;
  std::vector<std::int32_t> sums = {1, 2};
  for (std::uint32_t tag = 0; tag < kEagerCredits; ++tag) {
    for (const std::uint32_t rank : {0u, 1u}) {
      Call send = Plain(OperationKind::kSend, &out, nullptr, 1);
      send.peer_rank = 1 - rank;
      send.tag = tag;
      cluster.Submit(rank, send);
    }
  }
  cluster.Run();
  ASSERT_EQ(cluster.completions[1].size(), kEagerCredits);
  ASSERT_EQ(cluster.completions[2].size(), kEagerCredits);
  for (const std::uint32_t rank : {0u, 1u}) {
    cluster.Submit(rank, Plain(OperationKind::kBarrier, nullptr, nullptr, 0));
  }
  cluster.Run();
  EXPECT_EQ(cluster.completions[1].size(), kEagerCredits + 1);
  EXPECT_EQ(cluster.completions[2].size(), kEagerCredits + 1);
  for (const std::uint32_t rank : {0u, 1u}) {
    cluster.Submit(rank, AllReduce(&sums[rank], &sums[rank], 1));
  }
  cluster.Run();
  EXPECT_EQ(sums, (std::vector<std::int32_t>{3, 3}));
  EXPECT_EQ(cluster.violations, 0u);
}

}  // namespace
}  // namespace mlxcomm::collective::credit_test

// The bandwidths that follow from a size and a time.
#include "client/ctl/bench/bandwidth.h"

#include <gtest/gtest.h>

namespace mlxcomm::ctl::bandwidth_test {
namespace {

BenchSubject Of(OperationKind kind, std::uint32_t ranks, DataType type = DataType::kFloat32) {
  return {.kind = kind, .type = type, .op = ReduceOperator::kSum, .ranks = ranks};
}

// Why: figures are compared with those of nccl-tests, so they must mean the same.
// How: a GB in a second between four ranks, against its PERFORMANCE.md.
TEST(BandwidthTest, BusBandwidthIsThatOfNcclTests) {
  const std::uint64_t bytes = 1'000'000'000;
  const double second = 1e9;
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(bytes, second), 1e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kAllReduce, 4), bytes, second), 1.5e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kAllGather, 4), bytes, second), 0.75e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kReduceScatter, 4), bytes, second), 0.75e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kAllToAll, 4), bytes, second), 0.75e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kGather, 4), bytes, second), 0.75e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kScatter, 4), bytes, second), 0.75e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kBroadcast, 4), bytes, second), 1e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kReduce, 4), bytes, second), 1e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kSend, 4), bytes, second), 1e9);
  EXPECT_DOUBLE_EQ(BusBandwidth(Of(OperationKind::kAllReduce, 1), bytes, second), 0);
}

TEST(BandwidthTest, SizeCountsAllBlocksIfEachRankHasOne) {
  EXPECT_EQ(BenchCount(Of(OperationKind::kAllReduce, 4), 1024), 256u);
  EXPECT_EQ(BenchCount(Of(OperationKind::kAllGather, 4), 1024), 64u);
  EXPECT_EQ(BenchBytes(Of(OperationKind::kAllToAll, 4), 64), 1024u);
  EXPECT_EQ(BenchBytes(Of(OperationKind::kBroadcast, 4, DataType::kFloat16), 64), 128u);
  EXPECT_EQ(BenchCount(Of(OperationKind::kAllToAll, 4), 1), 1u) << "at least one element";
}

TEST(BandwidthTest, CountsGrowToTheLastWithoutDuplicates) {
  EXPECT_EQ(BenchCounts(Of(OperationKind::kAllReduce, 2), 8, 128, 4),
            (std::vector<std::uint64_t>{2, 8, 32}));
  EXPECT_EQ(BenchCounts(Of(OperationKind::kAllReduce, 2), 1, 16, 2),
            (std::vector<std::uint64_t>{1, 2, 4}))
      << "1, 2 and 4 bytes are one element";
  EXPECT_EQ(BenchCounts(Of(OperationKind::kAllReduce, 2), 64, 64, 2),
            (std::vector<std::uint64_t>{16}));
  EXPECT_EQ(BenchCounts(Of(OperationKind::kAllReduce, 2), 32, 1024, 4),
            (std::vector<std::uint64_t>{8, 32, 128, 256}))
      << "the last size is measured, too";
}

TEST(BandwidthTest, FindsKindsTypesAndOperatorsByName) {
  EXPECT_EQ(FindBenchKind("send_recv"), OperationKind::kSend);
  EXPECT_EQ(FindBenchKind("barrier"), std::nullopt);
  EXPECT_EQ(FindDataType("bfloat16"), DataType::kBfloat16);
  EXPECT_EQ(FindDataType("double"), std::nullopt);
  EXPECT_EQ(FindOperator("prod"), ReduceOperator::kProduct);
  EXPECT_EQ(FindOperator("none"), std::nullopt);
}

}  // namespace
}  // namespace mlxcomm::ctl::bandwidth_test

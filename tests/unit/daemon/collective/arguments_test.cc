// A group answers invalid calls with INVALID_ARGUMENT and the argument; nothing else changes.
#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <string>

#include "proto/types/operation_shape.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"

namespace mlxcomm::collective::arguments_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ArgumentsTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kArena = 4096;

  Call Make(OperationKind kind, std::uint64_t count, DataType type = DataType::kFloat32,
            ReduceOperator op = ReduceOperator::kNone) {
    Call call;
    call.signature = {kind, type, op, count};
    call.input = arena.data();
    call.output = arena.data() + kArena / 2;
    call.input_bytes_available = kArena;
    call.output_bytes_available = kArena / 2;
    return call;
  }
  Call WithTable(OperationKind kind, std::vector<std::uint64_t> counts) {
    Call call = Make(kind, 0);
    table = std::move(counts);
    call.counts = reinterpret_cast<const std::byte*>(table.data());
    call.counts_bytes_available = table.size() * sizeof(std::uint64_t);
    return call;
  }
  Failure Answer(const Call& call) {
    cluster.completions.clear();
    cluster.Submit(0, call);
    if (cluster.completions[1].empty()) return {};  // Accepted: it waits for rank 1.
    EXPECT_FALSE(cluster.completions[1][0].group_failed);
    return cluster.completions[1][0].failure;
  }
  std::string Refusal(const Call& call) {
    const Failure failure = Answer(call);
    EXPECT_EQ(failure.code, FailureCode::kInvalidArgument);
    return failure.message;
  }

  std::vector<std::byte> arena = std::vector<std::byte>(kArena);
  std::vector<std::uint64_t> table;
  SimulatedCluster cluster{2, 1, 1};
};

TEST_F(ArgumentsTest, OperatorsMustHaveAMeaning) {
  using Op = ReduceOperator;
  EXPECT_THAT(Refusal(Make(OperationKind::kAllReduce, 4)), HasSubstr("all_reduce needs one"));
  EXPECT_THAT(Refusal(Make(OperationKind::kAllGather, 4, DataType::kFloat32, Op::kSum)),
              HasSubstr("all_gather takes none"));
  EXPECT_THAT(Refusal(Make(OperationKind::kAllReduce, 4, DataType::kFloat32, Op::kAnd)),
              HasSubstr("and has no meaning for float32"));
  EXPECT_THAT(Refusal(Make(OperationKind::kReduce, 4, DataType::kInt8, Op::kMean)),
              HasSubstr("mean has no meaning for int8"));
  EXPECT_THAT(Refusal(Make(OperationKind::kReduceScatter, 4, DataType::kComplex64, Op::kOr)),
              HasSubstr("or has no meaning for complex64"));
}

TEST_F(ArgumentsTest, RootsAndPeersMustBeRanks) {
  Call broadcast = Make(OperationKind::kBroadcast, 4);
  broadcast.signature.root = 2;
  EXPECT_THAT(Refusal(broadcast), HasSubstr("root 2: must be a rank below 2"));
  Call send = Make(OperationKind::kSend, 4);
  send.peer_rank = 0;  // Itself.
  EXPECT_THAT(Refusal(send), HasSubstr("must be another rank"));
  send.peer_rank = 2;
  EXPECT_THAT(Refusal(send), HasSubstr("must be another rank"));
}

// Why: the sizes follow from kind, count and group; everything that a rank reads and writes must
// lie in its arena, whatever it requests.
TEST_F(ArgumentsTest, BuffersMustHoldWhatTheKindReadsAndWrites) {
  EXPECT_THAT(Refusal(Make(OperationKind::kAllReduce, kArena / 4 / 2 + 1, DataType::kFloat32,
                           ReduceOperator::kSum)),
              StartsWith("output: all_reduce sum float32[513] over 2 ranks needs 513 elements"));
  EXPECT_THAT(Refusal(Make(OperationKind::kAllGather, kArena / 4 / 4 + 1)), StartsWith("output"));
  EXPECT_THAT(Refusal(Make(OperationKind::kReduceScatter, kArena / 4 / 2 + 1, DataType::kFloat32,
                           ReduceOperator::kSum)),
              StartsWith("input"));
  EXPECT_THAT(Refusal(Make(OperationKind::kAllToAll, kArena / 4 / 4 + 1)), StartsWith("output"));
  for (const std::uint64_t count : {kElementsMax, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    EXPECT_THAT(Refusal(Make(OperationKind::kAllToAll, count)), HasSubstr(":")) << count;
  }
  // Only at the root: rank 0 may scatter from nothing to nothing as rank 1's peer.
  Call gather = Make(OperationKind::kGather, kArena / 4 / 2);
  gather.signature.root = 1;
  gather.output_bytes_available = 0;
  EXPECT_TRUE(Answer(gather).ok());
}

TEST_F(ArgumentsTest, TablesOfCountsAreCheckedBeforeTheyAreUsed) {
  Call outside = WithTable(OperationKind::kAllToAllV, {1, 1, 1});  // 4 are needed.
  EXPECT_THAT(Refusal(outside), HasSubstr("counts: the table of 4 numbers"));
  EXPECT_THAT(Refusal(WithTable(OperationKind::kAllGatherV, {1, 512})), StartsWith("output"));
  EXPECT_THAT(Refusal(WithTable(OperationKind::kAllToAllV, {1024, 1, 1, 1})), StartsWith("input"));
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(Refusal(WithTable(OperationKind::kAllGatherV, {kHuge, 2})), StartsWith("count"));
  EXPECT_THAT(Refusal(WithTable(OperationKind::kAllToAllV, {1, 1, kHuge, kHuge})),
              StartsWith("count"));
}

// Why: refused calls must not be counted, or the ranks' calls would never match again.
TEST_F(ArgumentsTest, CallsMatchAgainAfterARefusal) {
  Refusal(Make(OperationKind::kAllReduce, 4));
  cluster.completions.clear();
  std::int32_t values[2] = {1, 2};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Call call = Make(OperationKind::kAllReduce, 1, DataType::kInt32, ReduceOperator::kSum);
    call.input = reinterpret_cast<const std::byte*>(&values[rank]);
    call.output = reinterpret_cast<std::byte*>(&values[rank]);
    cluster.Submit(rank, call);
  }
  cluster.Run();
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
}

}  // namespace
}  // namespace mlxcomm::collective::arguments_test

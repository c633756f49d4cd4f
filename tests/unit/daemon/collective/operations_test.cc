// Operation x type x operator x plan x layout x count, on one and several nodes, against an oracle.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ground/expected_result.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::collective::operations_test {
namespace {

template <typename Table, typename IsWanted>
std::vector<typename Table::Value> ValuesOf(const Table& table, IsWanted is_wanted) {
  std::vector<typename Table::Value> values;
  table.ForEach([&](const auto& row) {
    if (is_wanted(row.value)) values.push_back(row.value);
  });
  return values;
}
const auto kTypes = ValuesOf(kDataTypes, [](DataType) { return true; });
const auto kOperators =
    ValuesOf(kReduceOperators, [](ReduceOperator op) { return op != ReduceOperator::kNone; });
const auto kReductions = ValuesOf(kOperations, Reduces);
const auto kMoves = ValuesOf(kOperations, [](OperationKind kind) {
  return !Reduces(kind) && !IsPointToPoint(kind) && !IsEmpty(kind);
});

struct Layout {
  const char* name;
  std::vector<int> node_of_rank;
};
struct Setting {
  Layout layout;
  PlanKind plan;
};

std::string NameOf(const testing::TestParamInfo<Setting>& info) {
  return std::string(info.param.layout.name) + "_" + PlanKindName(info.param.plan);
}

std::vector<Setting> AllSettings() {
  const Layout layouts[] = {
      {"1x1", {0}},
      {"1x4", {0, 0, 0, 0}},
      {"2x1", {0, 1}},
      {"2x2", {0, 0, 1, 1}},
      {"3x1", {0, 1, 2}},
      {"5x1", {0, 1, 2, 3, 4}},
      {"4x2", {0, 0, 1, 1, 2, 2, 3, 3}},
      {"uneven", {0, 0, 0, 1}},
      {"interleaved", {0, 1, 2, 0, 1, 0}},
  };
  std::vector<Setting> settings;
  for (const Layout& layout : layouts) {
    kPlanKinds.ForEach([&](const PlanKindRow& plan) { settings.push_back({layout, plan.value}); });
  }
  return settings;
}

class OperationsTest : public testing::TestWithParam<Setting> {
 protected:
  std::uint32_t size() const {
    return static_cast<std::uint32_t>(GetParam().layout.node_of_rank.size());
  }
  oracle::Operation Make(OperationKind kind, DataType type, ReduceOperator op, std::uint64_t count,
                         std::uint32_t root) const {
    oracle::Operation o{kind, type, op, count, size(), root, {}};
    oracle::AddTables(o);
    return o;
  }

  // Two at once, from different buffers, so that data of one must never end up in the other.
  enum class InPlace { kNobody, kEverybody, kOddRanks };
  void Expect(const oracle::Operation& o, InPlace who = InPlace::kNobody) {
    const std::size_t width = DataTypeBytes(o.type);
    SimulatedCluster cluster(GetParam().layout.node_of_rank,
                             static_cast<std::uint32_t>(o.count + o.root));
    cluster.several_rails = who != InPlace::kNobody;
    const auto is_in_place = [who](std::uint32_t rank) {
      return who == InPlace::kEverybody || (who == InPlace::kOddRanks && rank % 2 == 1);
    };
    std::vector<oracle::Bytes> in[2], out[2];
    for (int k = 0; k < 2; ++k) {
      in[k].resize(o.size);
      out[k].resize(o.size);
      for (std::uint32_t rank = 0; rank < o.size; ++rank) {
        const OperationShape shape = o.ShapeFor(rank);
        const bool in_place = is_in_place(rank);
        in[k][rank] = oracle::Input(o.type, o.op, rank, shape.input_elements);
        out[k][rank].assign(shape.output_elements * width, std::byte{0xee});
        Call call;
        call.ticket = static_cast<std::uint64_t>(k) + 1;
        call.signature = {o.kind, o.type, o.op, o.count, o.root, GetParam().plan};
        call.input = in[k][rank].data();
        call.output = in_place && shape.writes ? in[k][rank].data() : out[k][rank].data();
        if (in_place && in[k][rank].size() < out[k][rank].size()) {  // broadcast's others
          in[k][rank].resize(out[k][rank].size());
          call.input = call.output = in[k][rank].data();
        }
        if (!o.tables.empty()) {
          call.counts = reinterpret_cast<const std::byte*>(o.tables[rank].data());
          call.counts_bytes_available = o.tables[rank].size() * sizeof(std::uint64_t);
        }
        cluster.Submit(rank, call);
      }
    }
    cluster.Run();
    const std::string what = std::string(OperationKindName(o.kind)) + " " +
                             ReduceOperatorName(o.op) + " " + DataTypeName(o.type) + " count " +
                             std::to_string(o.count) + " root " + std::to_string(o.root);
    ASSERT_EQ(cluster.violations, 0u) << what;
    for (std::uint32_t rank = 0; rank < o.size; ++rank) {
      ASSERT_EQ(cluster.completions[rank + 1].size(), 2u) << what << ": rank " << rank << " hangs";
      for (const auto& completion : cluster.completions[rank + 1]) {
        ASSERT_TRUE(completion.failure.ok()) << what << ": " << completion.failure.message;
      }
      for (int k = 0; k < 2; ++k) {
        const bool writes = o.ShapeFor(rank).writes;
        const oracle::Bytes& result = is_in_place(rank) && writes ? in[k][rank] : out[k][rank];
        const std::int64_t wrong = oracle::FirstWrong(o, rank, result);
        ASSERT_EQ(wrong, -1) << what << ": rank " << rank << ", element " << wrong << " is "
                             << oracle::Decode(
                                    o.type, result.data() + static_cast<std::size_t>(
                                                                std::max<std::int64_t>(wrong, 0)) *
                                                                width);
      }
    }
    EXPECT_EQ(cluster.scratch_in_use(), 0u) << what;
  }
};

TEST_P(OperationsTest, EveryTypeAndOperatorReduces) {
  for (const DataType type : SomeOf(kTypes)) {
    for (const ReduceOperator op : kOperators) {
      if (!HasMeaning(type, op)) continue;
      for (const OperationKind kind : kReductions) {
        ASSERT_NO_FATAL_FAILURE(Expect(Make(kind, type, op, 37, size() - 1)));
      }
    }
  }
}

TEST_P(OperationsTest, EveryTypeMoves) {
  for (const DataType type : SomeOf(kTypes)) {
    for (const OperationKind kind : kMoves) {
      ASSERT_NO_FATAL_FAILURE(Expect(Make(kind, type, ReduceOperator::kNone, 37, 0)));
    }
  }
}

// Why: each count is another mixture of empty blocks, eager frames, granted data and chunks.
TEST_P(OperationsTest, EveryCountReducesAndMoves) {
  for (const std::uint64_t count : {0u, 1u, 2u, 3u, 4097u, 17'001u}) {
    const auto root = static_cast<std::uint32_t>(count % size());
    for (const OperationKind kind : kReductions) {
      ASSERT_NO_FATAL_FAILURE(
          Expect(Make(kind, DataType::kInt32, ReduceOperator::kSum, count, root)));
    }
    for (const OperationKind kind : kMoves) {
      ASSERT_NO_FATAL_FAILURE(
          Expect(Make(kind, DataType::kUint8, ReduceOperator::kNone, count, root)));
    }
  }
  // Several chunks.
  ASSERT_NO_FATAL_FAILURE(
      Expect(Make(OperationKind::kAllReduce, DataType::kInt64, ReduceOperator::kSum, 70'001, 0)));
  ASSERT_NO_FATAL_FAILURE(
      Expect(Make(OperationKind::kBroadcast, DataType::kInt64, ReduceOperator::kNone, 70'001, 0)));
}

TEST_P(OperationsTest, EveryRootServes) {
  for (std::uint32_t root = 0; root < size(); ++root) {
    for (const OperationKind kind :
         {OperationKind::kBroadcast, OperationKind::kGather, OperationKind::kScatter}) {
      ASSERT_NO_FATAL_FAILURE(
          Expect(Make(kind, DataType::kInt16, ReduceOperator::kNone, 9001, root)));
    }
    ASSERT_NO_FATAL_FAILURE(
        Expect(Make(OperationKind::kReduce, DataType::kInt32, ReduceOperator::kMax, 9001, root)));
  }
}

// Why: a write over a buffer in place must wait for the very chunk that was sent from there, and
// over several rails a later chunk may be acknowledged first. A node whose rank does not work in
// place may start steps sooner, and must still match the others.
TEST_P(OperationsTest, ReductionsAndBroadcastsWorkInPlace) {
  for (const std::uint64_t count : {5u, 5000u, 70'001u, 100'001u}) {
    const DataType type = count > 100'000 ? DataType::kInt64 : DataType::kInt32;
    for (const OperationKind kind : {OperationKind::kAllReduce, OperationKind::kReduce}) {
      ASSERT_NO_FATAL_FAILURE(
          Expect(Make(kind, type, ReduceOperator::kSum, count, 0), InPlace::kEverybody));
      ASSERT_NO_FATAL_FAILURE(
          Expect(Make(kind, type, ReduceOperator::kSum, count, 0), InPlace::kOddRanks));
    }
    ASSERT_NO_FATAL_FAILURE(
        Expect(Make(OperationKind::kBroadcast, type, ReduceOperator::kNone, count, 0),
               InPlace::kEverybody));
  }
}

TEST_P(OperationsTest, BarrierEndsOnlyWhenAllHaveCalled) {
  SimulatedCluster cluster(GetParam().layout.node_of_rank, 3);
  Call barrier;
  barrier.signature = {OperationKind::kBarrier, DataType::kFloat32, ReduceOperator::kNone, 0, 0,
                       GetParam().plan};
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    EXPECT_TRUE(cluster.completions.empty()) << "before rank " << rank << " came";
    cluster.Submit(rank, barrier);
    cluster.Run();
  }
  EXPECT_EQ(cluster.completions.size(), size());
  EXPECT_EQ(cluster.violations, 0u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, OperationsTest, testing::ValuesIn(AllSettings()), NameOf);

class LongOperationsTest : public OperationsTest {};

// Why: long reductions are done in slices, each sent when another has arrived.
// How: several slices of bytes, the fewest to check.
TEST_P(LongOperationsTest, AreDoneInSlices) {
  for (const InPlace who : {InPlace::kNobody, InPlace::kOddRanks}) {
    ASSERT_NO_FATAL_FAILURE(Expect(
        Make(OperationKind::kAllReduce, DataType::kUint8, ReduceOperator::kSum, 6'500'001, 0),
        who));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LongOperationsTest,
                         testing::Values(Setting{{"2x1", {0, 1}}, PlanKind::kRing},
                                         Setting{{"2x2", {0, 0, 1, 1}}, PlanKind::kRing},
                                         Setting{{"3x1", {0, 1, 2}}, PlanKind::kRing}),
                         NameOf);

}  // namespace
}  // namespace mlxcomm::collective::operations_test

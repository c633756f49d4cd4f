// What mlxcomm.h promises about numbers, for whole operations: sums within the stated bound of a
// float64 oracle for 2 to 64 ranks, the same bits on all ranks and in every run, NaN and infinities
// on every rank.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/ground/expected_result.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::collective::numbers_test {
namespace {

constexpr DataType kFloats[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                                DataType::kFloat64};
constexpr ReduceOperator kOperators[] = {ReduceOperator::kSum, ReduceOperator::kMin,
                                         ReduceOperator::kMax, ReduceOperator::kProduct,
                                         ReduceOperator::kMean};

struct Setting {
  int nodes;
  int ranks_per_node;
  PlanKind plan;
};

std::string NameOf(const testing::TestParamInfo<Setting>& info) {
  return std::to_string(info.param.nodes) + "x" + std::to_string(info.param.ranks_per_node) + "_" +
         PlanKindName(info.param.plan);
}

class NumbersTest : public testing::TestWithParam<Setting> {
 protected:
  std::size_t size() const {
    return static_cast<std::size_t>(GetParam().nodes) *
           static_cast<std::size_t>(GetParam().ranks_per_node);
  }
  // By rank: its result of an all_reduce of `inputs`.
  std::vector<oracle::Bytes> AllReduce(DataType type, ReduceOperator op,
                                       const std::vector<oracle::Bytes>& inputs,
                                       std::uint32_t seed) {
    SimulatedCluster cluster(GetParam().nodes, GetParam().ranks_per_node, seed);
    std::vector<oracle::Bytes> outputs(size(), oracle::Bytes(inputs[0].size()));
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      Call call;
      call.signature = {OperationKind::kAllReduce,
                        type,
                        op,
                        inputs[0].size() / DataTypeBytes(type),
                        0,
                        GetParam().plan};
      call.input = inputs[rank].data();
      call.output = outputs[rank].data();
      cluster.Submit(rank, call);
    }
    cluster.Run();
    for (const auto& [session, completions] : cluster.completions) {
      EXPECT_TRUE(completions[0].failure.ok()) << completions[0].failure.message;
    }
    EXPECT_EQ(cluster.completions.size(), size());
    return outputs;
  }
};

// The bound of mlxcomm.h, in units of the sum of absolute values.
double BoundOf(DataType type, double ranks, double hops) {
  if (type == DataType::kFloat64) return (ranks - 1) * 0x1p-53;
  if (type == DataType::kFloat32) return (ranks - 1) * 0x1p-24;
  const double unit = type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
  return (hops + 1) * unit + (ranks - 1) * 0x1p-24;
}

TEST_P(NumbersTest, SumsStayWithinTheStatedBoundAndAreTheSameBitsEverywhere) {
  // Few ranks also sum what waits for a grant.
  const std::size_t count = size() <= 8 ? 20'011 : 700;
  for (const DataType type : SomeOf(kFloats)) {
    const std::size_t width = DataTypeBytes(type);
    std::mt19937_64 random(17);
    std::uniform_real_distribution<double> numbers(-1, 1);
    std::vector<oracle::Bytes> inputs(size(), oracle::Bytes(count * width));
    std::vector<long double> sums(count), sizes(count);
    for (oracle::Bytes& input : inputs) {
      for (std::size_t i = 0; i < count; ++i) {
        oracle::Encode(type, numbers(random), input.data() + i * width);
        const double stored = oracle::Decode(type, input.data() + i * width).real();
        sums[i] += stored;
        sizes[i] += std::abs(stored);
      }
    }
    const auto outputs = AllReduce(type, ReduceOperator::kSum, inputs, 1);
    const auto again = AllReduce(type, ReduceOperator::kSum, inputs, 2);
    // Subnormal results of float16 have an absolute error instead.
    const long double tiny = type == DataType::kFloat16 ? 0x1p-25L : 0.0L;
    const double bound = BoundOf(type, static_cast<double>(size()), GetParam().nodes);
    for (std::size_t rank = 0; rank < size(); ++rank) {
      ASSERT_TRUE(outputs[rank] == outputs[0]) << DataTypeName(type) << ": rank " << rank;
      ASSERT_TRUE(again[rank] == outputs[0]) << DataTypeName(type) << ": another schedule";
    }
    for (std::size_t i = 0; i < count; ++i) {
      const long double got = oracle::Decode(type, outputs[0].data() + i * width).real();
      ASSERT_LE(std::abs(got - sums[i]), bound * sizes[i] + tiny)
          << DataTypeName(type) << " element " << i;
    }
  }
}

// By element: NaN if any rank has one; infinities by the rules of arithmetic.
TEST_P(NumbersTest, NanAndInfinityArriveOnEveryRank) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::size_t count = size() * 3 + 1;
  for (const DataType type : SomeOf(kFloats)) {
    const std::size_t width = DataTypeBytes(type);
    std::vector<oracle::Bytes> inputs(size(), oracle::Bytes(count * width));
    for (std::size_t rank = 0; rank < size(); ++rank) {
      for (std::size_t i = 0; i < count; ++i) {
        double value = 1;
        if (i == 3 * rank) value = kNan;
        if (i == 3 * rank + 1) value = kInfinity;
        if (i == 3 * rank + 2) value = -kInfinity;
        oracle::Encode(type, value, inputs[rank].data() + i * width);
      }
    }
    for (const ReduceOperator op : SomeOf(kOperators)) {
      const auto outputs = AllReduce(type, op, inputs, 3);
      for (const oracle::Bytes& output : outputs) {
        const auto at = [&](std::size_t i) {
          return oracle::Decode(type, output.data() + i * width).real();
        };
        for (std::size_t rank = 0; rank < size(); ++rank) {
          ASSERT_TRUE(std::isnan(at(3 * rank))) << ReduceOperatorName(op);
          ASSERT_EQ(at(3 * rank + 1), op == ReduceOperator::kMin ? 1 : kInfinity);
          ASSERT_EQ(at(3 * rank + 2), op == ReduceOperator::kMax ? 1 : -kInfinity);
        }
      }
    }
  }
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  const std::pair<int, int> layouts[] = {{1, 2}, {1, 64}, {2, 1},  {3, 1},
                                         {4, 2}, {8, 8},  {33, 1}, {64, 1}};
  for (const auto& [nodes, ranks_per_node] : layouts) {
    for (const PlanKind plan :
         {PlanKind::kRing, PlanKind::kExchange, PlanKind::kHalvingDoubling, PlanKind::kTree}) {
      if (nodes > 1 || plan == PlanKind::kRing) settings.push_back({nodes, ranks_per_node, plan});
    }
  }
  return settings;
}

INSTANTIATE_TEST_SUITE_P(Layouts, NumbersTest, testing::ValuesIn(Settings()), NameOf);

}  // namespace
}  // namespace mlxcomm::collective::numbers_test

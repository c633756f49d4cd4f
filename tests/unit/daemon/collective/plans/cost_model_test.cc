#include "daemon/collective/plan.h"

#include "daemon/collective/plans/estimate.h"
#include "tests/unit/daemon/collective/plans/operation_cases.h"

namespace mlxcomm::collective::cost_model_test {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

PlanKind Chosen(OperationKind kind, const GroupShape& shape, std::uint64_t count,
                const LinkCosts& costs = {}) {
  WholeOperation operation = MakeOperation(shape, kind, PlanKind::kAutomatic, count);
  operation.costs = costs;
  return MakePlans(operation).front().between_nodes;
}

// Why: small data costs round trips, large data costs bytes on the links; a choice that is off by
// one algorithm costs several times the time.
TEST(CostModelTest, ChoosesFewStepsForSmallAndFewBytesForLargeData) {
  for (const int nodes : {2, 3, 4, 5, 8}) {
    const GroupShape shape = EvenShape(nodes, 1);
    EXPECT_EQ(Chosen(OperationKind::kAllReduce, shape, 1), PlanKind::kExchange) << nodes;
    EXPECT_EQ(Chosen(OperationKind::kBarrier, shape, 0), PlanKind::kExchange) << nodes;
    EXPECT_EQ(Chosen(OperationKind::kAllReduce, shape, 64 * kMiB), PlanKind::kRing) << nodes;
    EXPECT_EQ(Chosen(OperationKind::kReduceScatter, shape, 16 * kMiB), PlanKind::kRing) << nodes;
  }
  for (const int nodes : {4, 5, 8}) {
    const GroupShape shape = EvenShape(nodes, 2);
    EXPECT_EQ(Chosen(OperationKind::kBroadcast, shape, 64 * kMiB), PlanKind::kRing) << nodes;
    EXPECT_EQ(Chosen(OperationKind::kReduce, shape, 64 * kMiB), PlanKind::kRing) << nodes;
    EXPECT_EQ(Chosen(OperationKind::kAllGather, shape, 16 * kMiB), PlanKind::kRing) << nodes;
  }
}

// With a low latency, sending to many nodes one after the other costs the most.
TEST(CostModelTest, ChoosesATreeForSmallDataAmongManyOnFastLinks) {
  const LinkCosts quick{
      .latency_ns = 3'000, .bytes_per_second = 10'000'000'000, .links_per_node = 1};
  EXPECT_EQ(Chosen(OperationKind::kBroadcast, EvenShape(64, 1), 1, quick), PlanKind::kTree);
  EXPECT_EQ(Chosen(OperationKind::kBarrier, EvenShape(64, 1), 0, quick), PlanKind::kTree);
}

// In between, latency and bytes both count.
TEST(CostModelTest, ChoosesHalvingAndDoublingInBetween) {
  const LinkCosts switched{
      .latency_ns = 50'000, .bytes_per_second = 4'000'000'000, .links_per_node = 1};
  EXPECT_EQ(Chosen(OperationKind::kAllReduce, EvenShape(16, 1), kMiB / 4, switched),
            PlanKind::kHalvingDoubling);
}

// Why: nodes that choose differently wait for messages that are never sent.
// How: every node of groups of every shape; costs depend on the group only.
TEST(CostModelTest, ChoosesAlikeOnAllNodes) {
  const LinkCosts costs[] = {{}, {1'000, 25'000'000'000, 1}, {200'000, 100'000'000, 7}};
  for (const GroupShape& shape : AllShapes()) {
    for (const OperationKind kind : kAllKinds) {
      for (const std::uint64_t count : {0u, 100u, 10'000u, 1'000'000u}) {
        for (const LinkCosts& figures : costs) {
          WholeOperation operation = MakeOperation(shape, kind, PlanKind::kAutomatic, count);
          operation.costs = figures;
          const std::vector<Plan> plans = MakePlans(operation);
          for (const Plan& plan : plans) {
            ASSERT_EQ(plan.between_nodes, plans.front().between_nodes) << shape.name;
          }
        }
      }
    }
  }
}

// Why: figures come from measurements on other hosts; a nonsensical one must not divide by zero or
// overflow into the cheapest plan.
TEST(CostModelTest, SurvivesNonsensicalFigures) {
  const LinkCosts nonsense[] = {{0, 0, 0},
                                {UINT64_MAX, 1, UINT32_MAX},
                                {UINT64_MAX, UINT64_MAX, 0},
                                {0, UINT64_MAX, UINT32_MAX}};
  for (const LinkCosts& costs : nonsense) {
    for (const std::uint32_t nodes : {2u, 3u, 1024u}) {
      const Estimate small({OperationKind::kAllReduce, nodes, 4096, 0}, costs);
      const Estimate huge({OperationKind::kAllReduce, nodes, 4096, UINT64_MAX}, costs);
      for (const auto cost : {&Estimate::RingAllReduce, &Estimate::ExchangeAllReduce,
                              &Estimate::HalvingDoublingAllReduce, &Estimate::TreeAllReduce}) {
        EXPECT_LE((small.*cost)(), (huge.*cost)());
      }
    }
  }
}

}  // namespace
}  // namespace mlxcomm::collective::cost_model_test

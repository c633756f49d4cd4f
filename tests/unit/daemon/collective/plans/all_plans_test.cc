// Why: a plan that is wrong for one layout or one length is a hang or a wrong number
// in somebody's training, and no run of a few examples finds it.
// How: every kind by every plan on every shape of group, for the lengths at which
// something changes, proved by the verifier.
#include <gmock/gmock.h>

#include <set>
#include <tuple>

#include "daemon/collective/plans/plans.h"
#include "tests/unit/daemon/collective/plans/operation_cases.h"

namespace mlxcomm::collective {
namespace {

std::string Describe(const WholeOperation& operation, const GroupShape& shape) {
  return operation.signature.Describe() + " on " + shape.name +
         (operation.in_place ? ", in place" : "") + ", root " +
         std::to_string(operation.signature.root);
}

// Nothing, one, two, fewer than ranks, odd, around the eager size, as many eager parts as there
// may be, in chunks of which the last is short.
constexpr std::uint64_t kCounts[] = {0, 1, 2, 5, 1027, 4097, 16384, 3 * 256 * 1024 + 77};

class AllPlansTest
    : public testing::TestWithParam<std::tuple<OperationKind, PlanKind, GroupShape>> {};

TEST_P(AllPlansTest, AreProved) {
  const auto& [kind, plan, shape] = GetParam();
  const auto size = static_cast<std::uint32_t>(shape.node_of_rank.size());
  std::set<std::uint32_t> roots{0};
  if (HasRoot(kind)) roots = {0, size / 2, size - 1};
  const bool may_be_in_place = kind == OperationKind::kAllReduce ||
                               kind == OperationKind::kReduce || kind == OperationKind::kBroadcast;
  for (const std::uint64_t count : kCounts) {
    if (kind == OperationKind::kBarrier && count > 0) break;
    for (const std::uint32_t root : roots) {
      for (const bool in_place : {false, true}) {
        if (in_place && !may_be_in_place) continue;
        WholeOperation operation = MakeOperation(shape, kind, plan, count, root);
        operation.in_place = in_place;
        const auto report = VerifyPlans(operation, MakePlans(operation));
        ASSERT_TRUE(report.ok()) << Describe(operation, shape) << ": " << report.status();
        if (!in_place) continue;
        // Only the first node's ranks: the others do not know.
        std::vector<Plan> plans = MakePlans(operation);
        operation.in_place = false;
        for (std::uint16_t node = 1; node < plans.size(); ++node) {
          plans[node] = MakePlanOf(operation, node);
        }
        const auto mixed = VerifyPlans(operation, plans);
        ASSERT_TRUE(mixed.ok()) << Describe(operation, shape) << ": " << mixed.status();
      }
    }
  }
}

std::string NameOf(const testing::TestParamInfo<AllPlansTest::ParamType>& info) {
  const auto& [kind, plan, shape] = info.param;
  return std::string(OperationKindName(kind)) + "_" + PlanKindName(plan) + "_" + shape.name;
}

INSTANTIATE_TEST_SUITE_P(KindsPlansShapes, AllPlansTest,
                         testing::Combine(testing::ValuesIn(kAllKinds),
                                          testing::ValuesIn(kAllPlans),
                                          testing::ValuesIn(AllShapes())),
                         NameOf);

// Why: with more nodes than a step has sources exchange is no longer offered, credit
// gets scarce, and rings and trees are deep.
// How: few elements, for the number of steps is what matters here.
TEST(AllPlansTest, AreProvedForLargeGroups) {
  for (const GroupShape& shape : {EvenShape(65, 1), EvenShape(16, 4)}) {
    for (const OperationKind kind : kAllKinds) {
      for (const PlanKind plan : kAllPlans) {
        const WholeOperation operation = MakeOperation(shape, kind, plan, 70, /*root=*/33);
        const bool chosen = plan == PlanKind::kAutomatic;
        if (!chosen && !OffersPlan(kind, plan, operation.LayoutAt(0))) continue;
        const auto report = VerifyPlans(operation, MakePlans(operation));
        ASSERT_TRUE(report.ok()) << Describe(operation, shape) << ": " << report.status();
      }
    }
  }
}

// Why: long reductions are done in slices, which share scratch memory; where links are slow to
// answer more of them are under way, and in large groups with large blocks there is no scratch
// memory for them.
// How: some slices more than are under way, an odd count, links of both kinds.
TEST(AllPlansTest, AreProvedForManySlices) {
  constexpr std::uint64_t kCount = 9 * 1024 * 1024 / sizeof(float) + 77;
  for (const GroupShape& shape : AllShapes()) {
    if (shape.node_of_rank.size() == 1) continue;
    for (const std::uint64_t latency_ns : {10'000, 1'000'000}) {
      for (const bool in_place : {false, true}) {
        WholeOperation operation =
            MakeOperation(shape, OperationKind::kAllReduce, PlanKind::kRing, kCount);
        operation.costs.latency_ns = latency_ns;
        operation.in_place = in_place;
        const auto report = VerifyPlans(operation, MakePlans(operation));
        ASSERT_TRUE(report.ok()) << Describe(operation, shape) << ": " << report.status();
      }
    }
  }
}

TEST(AllPlansTest, LongReductionsNeedLittleScratchMemory) {
  for (const std::uint64_t mebibytes : {4, 64, 1024}) {
    const WholeOperation operation = MakeOperation(
        EvenShape(4, 1), OperationKind::kAllReduce, PlanKind::kRing, mebibytes * 256 * 1024);
    EXPECT_LE(MakePlanOf(operation, 0).scratch_bytes, 32u * 1024 * 1024) << mebibytes;
  }
}

// Why: a grant costs a way between nodes, which is more than what these few messages cost.
TEST(AllPlansTest, ExchangeALittleMoreThanTheEagerSizeInEagerParts) {
  for (const auto& [bytes, parts] : {std::pair(kEagerBytes, 1u), std::pair(kEagerBytes + 4, 2u),
                                     std::pair(4 * kEagerBytes, 4u),
                                     std::pair(4 * kEagerBytes + 4, 1u)}) {
    for (const GroupShape& shape : {EvenShape(2, 1), EvenShape(3, 2)}) {
      const WholeOperation operation = MakeOperation(shape, OperationKind::kAllReduce,
                                                     PlanKind::kExchange, bytes / sizeof(float));
      const Plan plan = MakePlanOf(operation, 0);
      std::uint64_t sent = 0;
      std::uint64_t messages = 0;
      for (const Step& step : plan.steps) {
        if (step.kind != StepKind::kSend || step.node != 1) continue;
        EXPECT_EQ(IsEager(step.bytes), bytes <= 4 * kEagerBytes) << bytes;
        sent += step.bytes;
        ++messages;
      }
      EXPECT_EQ(sent, bytes);
      EXPECT_EQ(messages, parts) << bytes << " on " << shape.name;
    }
  }
}

// A forced plan is the one that is made wherever the table has it; otherwise, and for
// two_level, what the cost model would choose.
TEST(AllPlansTest, UseTheForcedPlanWhereItIsOffered) {
  for (const GroupShape& shape : AllShapes()) {
    for (const OperationKind kind : kAllKinds) {
      for (const PlanKind forced : kAllPlans) {
        const WholeOperation operation = MakeOperation(shape, kind, forced, 1000);
        const GroupLayout layout = operation.LayoutAt(0);
        const WholeOperation free = MakeOperation(shape, kind, PlanKind::kAutomatic, 1000);
        const PlanKind expected = OffersPlan(kind, forced, layout)
                                      ? forced
                                      : MakePlans(free).front().between_nodes;
        EXPECT_EQ(MakePlans(operation).front().between_nodes, expected)
            << Describe(operation, shape);
      }
    }
  }
}

}  // namespace
}  // namespace mlxcomm::collective

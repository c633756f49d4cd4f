// Why: a plan that is wrong for one layout or length is a hang or a wrong number in a user's
// training, and no few examples find it.
// How: every kind by every plan on every shape of group, for the lengths at which something
// changes, proved by the verifier.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "daemon/collective/plans/plans.h"
#include "daemon/collective/plans/slices.h"
#include "tests/unit/daemon/collective/plans/operation_cases.h"

namespace mlxcomm::collective::all_plans_test {
namespace {

std::string Describe(const WholeOperation& operation, const GroupShape& shape) {
  return operation.signature.Describe() + " on " + shape.name +
         (operation.in_place ? ", in place" : "") + ", root " +
         std::to_string(operation.signature.root);
}

// Plans of all nodes; only the first node's ranks may be in place.
std::vector<Plan> PlansWithFirstInPlace(WholeOperation operation) {
  operation.in_place = false;
  std::vector<Plan> plans = MakePlans(operation);
  operation.in_place = true;
  plans[0] = MakePlanOf(operation, 0);
  return plans;
}

// Zero, one, two, fewer than ranks, odd, around the eager size, the largest number of eager parts,
// and chunks with a short last one.
constexpr std::uint64_t kCounts[] = {0, 1, 2, 5, 1027, 4097, 16384, 3 * 256 * 1024 + 77};

class AllPlansTest
    : public testing::TestWithParam<std::tuple<OperationKind, PlanKind, GroupShape>> {};

TEST_P(AllPlansTest, AreProved) {
  const auto& [kind, plan, shape] = GetParam();
  const auto size = static_cast<std::uint32_t>(shape.node_of_rank.size());
  std::set<std::uint32_t> roots{0};
  if (HasRoot(kind)) roots = {0, size / 2, size - 1};
  for (const std::uint64_t count : kCounts) {
    if (IsEmpty(kind) && count > 0) break;
    for (const std::uint32_t root : roots) {
      for (const bool in_place : {false, true}) {
        if (in_place && !MayBeInPlace(kind)) continue;
        WholeOperation operation = MakeOperation(shape, kind, plan, count, root);
        operation.in_place = in_place;
        const auto report = VerifyPlans(operation, MakePlans(operation));
        ASSERT_TRUE(report.ok()) << Describe(operation, shape) << ": " << report.status();
        if (!in_place) continue;
        // Only the first node's ranks: the others do not know.
        operation.in_place = false;
        const auto mixed = VerifyPlans(operation, PlansWithFirstInPlace(operation));
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

// Why: with more nodes than a step has sources, exchange is not offered, credit gets scarce, and
// rings and trees are deep.
// How: few elements, because the number of steps matters here.
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

// Why: long reductions are done in slices, which share scratch memory. With slow links more of them
// are under way, and large blocks have no scratch memory. Each node may do it differently.
// How: the steps of long operations, with little data: an odd count in blocks just above the eager
// size. With 64 MiB some of the slices are under way at 10 and 100 us, and all of them at 1 ms;
// with 4 GiB the blocks are too large for scratch memory.
TEST(AllPlansTest, AreProvedForManySlices) {
  for (const GroupShape& shape : AllShapes()) {
    if (shape.node_of_rank.size() == 1) continue;
    for (const std::uint64_t mebibytes : {64u, 4096u}) {
      for (const std::uint64_t latency_ns : {10'000u, 100'000u, 1'000'000u}) {
        WholeOperation operation = MakeOperation(shape, OperationKind::kAllReduce, PlanKind::kRing,
                                                 mebibytes * 1024 * 1024 / sizeof(float));
        operation.costs.latency_ns = latency_ns;
        operation.chosen_for = operation.signature.count;
        const int nodes = operation.LayoutAt(0).node_count();
        const Slices slices = SlicesOfRing(nodes, operation.signature.count, sizeof(float));
        operation.SetCount(slices.count *
                               static_cast<std::uint64_t>(nodes * DirectionCount(nodes)) *
                               (kEagerBytes / sizeof(float) + 1000) +
                           77);
        for (const bool in_place : {false, true}) {
          operation.in_place = in_place;
          const auto report = VerifyPlans(operation, MakePlans(operation));
          ASSERT_TRUE(report.ok()) << Describe(operation, shape) << ": " << report.status();
        }
        operation.in_place = false;
        const auto mixed = VerifyPlans(operation, PlansWithFirstInPlace(operation));
        ASSERT_TRUE(mixed.ok()) << Describe(operation, shape) << ": " << mixed.status();
      }
    }
  }
}

// Why: a proof with little data does not notice blocks of the real size that overlap.
// How: any two blocks that steps write in scratch memory are the same or disjoint, to the byte.
TEST(AllPlansTest, BlocksInScratchMemoryDoNotOverlap) {
  for (const GroupShape& shape : {EvenShape(3, 1), EvenShape(4, 1), EvenShape(8, 1)}) {
    for (const std::uint64_t bytes : {9u << 20, (64u << 20) + 308, (100u << 20) + 4}) {
      for (const std::uint64_t latency_ns : {10'000u, 100'000u}) {
        WholeOperation operation =
            MakeOperation(shape, OperationKind::kAllReduce, PlanKind::kRing, bytes / sizeof(float));
        operation.costs.latency_ns = latency_ns;
        const Plan plan = MakePlanOf(operation, 1);
        std::map<std::uint64_t, std::uint64_t> blocks;  // The longest one at each offset.
        for (const Step& step : plan.steps) {
          if (step.kind == StepKind::kSend) continue;
          if (step.destination.side != Place::Side::kScratch) continue;
          std::uint64_t& longest = blocks[step.destination.offset];
          longest = std::max(longest, step.bytes);
        }
        ASSERT_FALSE(blocks.empty()) << Describe(operation, shape);
        std::uint64_t end = 0;
        for (const auto& [offset, length] : blocks) {
          EXPECT_GE(offset, end) << Describe(operation, shape);
          end = offset + length;
        }
        EXPECT_LE(end, plan.scratch_bytes) << Describe(operation, shape);
      }
    }
  }
}

// Why: a plan that waits for acknowledgements, as in place, needs more slices under way than one
// with scratch memory; a plan without it for another reason waits as long.
// How: counts the slices whose receives wait for nothing, which are twice those under way.
TEST(AllPlansTest, WithoutScratchMemoryAsManySlicesAreUnderWayAsInPlace) {
  WholeOperation operation = MakeOperation(EvenShape(4, 1), OperationKind::kAllReduce,
                                           PlanKind::kRing, std::uint64_t{4096} * 256 * 1024);
  const Plan apart = MakePlanOf(operation, 0);
  EXPECT_EQ(apart.scratch_bytes, 0u);
  operation.in_place = true;
  const Plan in_place = MakePlanOf(operation, 0);
  ASSERT_EQ(apart.steps.size(), in_place.steps.size());
  for (std::size_t i = 0; i < apart.steps.size(); ++i) {
    EXPECT_EQ(apart.steps[i].after_count, in_place.steps[i].after_count) << "step " << i;
  }
}

TEST(AllPlansTest, LongReductionsNeedLittleScratchMemory) {
  for (const std::uint64_t mebibytes : {4u, 64u, 1024u}) {
    const WholeOperation operation = MakeOperation(EvenShape(4, 1), OperationKind::kAllReduce,
                                                   PlanKind::kRing, mebibytes * 256 * 1024);
    EXPECT_LE(MakePlanOf(operation, 0).scratch_bytes, 32u * 1024 * 1024) << mebibytes;
  }
}

// Why: a grant costs a round trip between nodes, which is more than these few messages cost.
TEST(AllPlansTest, ExchangeSlightlyMoreThanTheEagerSizeInEagerParts) {
  for (const auto& [bytes, parts] :
       {std::pair(kEagerBytes, 1u), std::pair(kEagerBytes + 4, 2u), std::pair(4 * kEagerBytes, 4u),
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

// A forced plan is used if it is offered, otherwise the cost model's choice.
TEST(AllPlansTest, UseTheForcedPlanIfItIsOffered) {
  for (const GroupShape& shape : AllShapes()) {
    for (const OperationKind kind : kAllKinds) {
      for (const PlanKind forced : kAllPlans) {
        const WholeOperation operation = MakeOperation(shape, kind, forced, 1000);
        const GroupLayout layout = operation.LayoutAt(0);
        const WholeOperation free = MakeOperation(shape, kind, PlanKind::kAutomatic, 1000);
        const PlanKind expected =
            OffersPlan(kind, forced, layout) ? forced : MakePlans(free).front().between_nodes;
        EXPECT_EQ(MakePlans(operation).front().between_nodes, expected)
            << Describe(operation, shape);
      }
    }
  }
}

}  // namespace
}  // namespace mlxcomm::collective::all_plans_test

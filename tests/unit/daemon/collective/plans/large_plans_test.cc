// Plans for much data are proved with less data that has the same steps.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/collective/plans/plans.h"
#include "daemon/collective/plans/slices.h"
#include "tests/unit/daemon/collective/plans/operation_cases.h"
#include "tests/verify/optimal_bytes.h"

namespace mlxcomm::collective::large_plans_test {
namespace {

constexpr std::uint64_t kChunksMax = 64 * 1024;  // Of all steps in a proof.

std::uint64_t ChunkCountOf(const std::vector<Plan>& plans) {
  std::uint64_t chunks = 0;
  for (const Plan& plan : plans) {
    for (const Step& step : plan.steps) chunks += collective::ChunkCount(step.bytes);
  }
  return chunks;
}

// Whether they differ only in lengths, so that a proof of one holds for both.
bool SameSteps(const Plan& a, const Plan& b) {
  if (a.steps.size() != b.steps.size() || a.after != b.after) return false;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const Step& one = a.steps[i];
    const Step& other = b.steps[i];
    if (one.kind != other.kind || one.node != other.node || one.tag != other.tag ||
        one.finishes != other.finishes || one.received_first != other.received_first ||
        one.source_count != other.source_count || one.after_begin != other.after_begin ||
        one.after_count != other.after_count ||
        collective::IsEager(one.bytes) != collective::IsEager(other.bytes)) {
      return false;
    }
    for (const std::int32_t before : a.AfterOf(one)) {  // By chunk, or as a whole.
      const auto index = static_cast<std::size_t>(before);
      if ((a.steps[index].bytes == one.bytes) != (b.steps[index].bytes == other.bytes))
        return false;
    }
  }
  return true;
}

// Only the count's remainder decides how parts are divided: less data with the same remainder, and
// the slices and scratch memory of the whole, has the same steps.
std::uint64_t LessThan(std::uint64_t count, std::uint64_t whole, const WholeOperation& operation) {
  const int nodes = operation.LayoutAt(0).node_count();
  const std::uint64_t slices = SlicesOfRing(nodes, whole, operation.element_bytes()).count;
  const std::uint64_t period = std::uint64_t{128} * static_cast<std::uint64_t>(nodes) * slices;
  return count / 2 / period * period + whole % period;
}

// Proves a plan for all data with the maximum that a proof can take. Returns that, in bytes.
std::uint64_t Prove(const WholeOperation& operation, const std::string& what) {
  const std::uint64_t whole = operation.signature.count;
  const std::vector<Plan> all = MakePlans(operation);
  WholeOperation less = operation;
  less.chosen_for = whole;
  std::vector<Plan> plans = all;
  while (ChunkCountOf(plans) > kChunksMax) {
    const std::uint64_t count = LessThan(less.signature.count, whole, operation);
    if (count >= less.signature.count) break;
    less.SetCount(count);
    plans = MakePlans(less);
  }
  const auto report = VerifyPlans(less, plans);
  EXPECT_TRUE(report.ok()) << what << ": " << report.status();
  const GroupLayout layout = operation.LayoutAt(0);
  for (std::size_t node = 0; node < all.size(); ++node) {
    EXPECT_TRUE(SameSteps(all[node], plans[node])) << what << ", node " << node;
    std::vector<std::uint64_t> bytes(all.size());
    for (const Step& step : all[node].steps) {
      if (step.kind == StepKind::kSend) bytes[step.node] += step.bytes;
    }
    for (std::size_t to = 0; to < all.size(); ++to) {
      if (to == node) continue;
      EXPECT_EQ(bytes[to], OptimalBytes(operation, layout, all.front().between_nodes,
                                        static_cast<int>(node), static_cast<int>(to)))
          << what << ", from node " << node << " to node " << to;
    }
  }
  return less.signature.count * less.element_bytes();
}

// Why: a proof costs time per chunk, and a terabyte has millions.
TEST(LargePlansTest, AreProvedByFewerChunks) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 40, (std::uint64_t{1} << 38) + 20}) {
    for (const PlanKind plan :
         {PlanKind::kRing, PlanKind::kExchange, PlanKind::kHalvingDoubling, PlanKind::kTree}) {
      const std::string what = std::string(PlanKindName(plan)) + " of " + std::to_string(bytes);
      const std::uint64_t proved = Prove(
          MakeOperation(EvenShape(6, 3), OperationKind::kAllReduce, plan, bytes / sizeof(float)),
          what);
      EXPECT_LT(proved, bytes) << what;
      EXPECT_GE(proved, std::uint64_t{1} << 26) << what;
    }
  }
}

// Why: the size of a ring's blocks decides how many slices are under way, and whether unfinished
// blocks have scratch memory; a proof with less data must not choose again.
// How: sizes and links at which less data would be handled differently.
TEST(LargePlansTest, LongRingsAreProvedAsTheyAreExecuted) {
  struct Case {
    int nodes;
    std::uint64_t gibibytes;
    std::uint64_t latency_ns;  // 0: the default.
    std::uint64_t bytes_per_second;
  };
  for (const Case& a :
       {Case{3, 4, 0, 0}, Case{4, 4, 0, 0}, Case{8, 1, 0, 0}, Case{3, 2, 1'000'000, 1'250'000'000},
        Case{4, 2, 1'000'000, 1'250'000'000}, Case{16, 1, 60'000, 10'000'000'000}}) {
    WholeOperation operation = MakeOperation(EvenShape(a.nodes, 1), OperationKind::kAllReduce,
                                             PlanKind::kRing, (a.gibibytes << 30) / sizeof(float));
    if (a.latency_ns != 0) {
      operation.costs.latency_ns = a.latency_ns;
      operation.costs.bytes_per_second = a.bytes_per_second;
    }
    const std::string what =
        std::to_string(a.nodes) + " nodes, " + std::to_string(a.gibibytes) + " GiB";
    EXPECT_LT(Prove(operation, what), a.gibibytes << 30) << what;
  }
}

}  // namespace
}  // namespace mlxcomm::collective::large_plans_test

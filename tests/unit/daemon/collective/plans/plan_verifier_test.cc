// Why: a verifier proves what it does not notice. So each of its checks is broken once in a correct
// plan.
// How: the plans of one operation, one fault planted in them, and the words that name it.
#include "tests/verify/plan_verifier.h"

#include <gmock/gmock.h>

#include <functional>
#include <ostream>

#include "tests/unit/daemon/collective/plans/operation_cases.h"

namespace mlxcomm::collective::plan_verifier_test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kLarge = 512 * 1024;        // Elements: large messages, several chunks.
constexpr std::uint64_t kSlices = 2 * 1024 * 1024;  // Elements: six slices of a ring of three.

struct Fault {
  std::string name;
  WholeOperation operation;
  std::function<void(std::vector<Plan>&)> plant;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

// The step of this kind after skipping this many.
Step& Find(Plan& plan, StepKind kind, std::size_t skip = 0) {
  for (Step& step : plan.steps) {
    if (step.kind == kind && skip-- == 0) return step;
  }
  ADD_FAILURE() << "the plan has no such step";
  return plan.steps.front();
}

// Drops the edges to all earlier steps.
void DropEdges(Step& step) { step.after_count = 0; }

void Remove(Plan& plan, const Step& step) {
  // Other steps refer to it by index, so it is replaced by one that does nothing.
  Step nothing;
  nothing.after_begin = step.after_begin;
  nothing.after_count = step.after_count;
  plan.steps[static_cast<std::size_t>(&step - plan.steps.data())] = nothing;
}

WholeOperation AllReduce(int nodes, int ranks, PlanKind plan, std::uint64_t count) {
  return MakeOperation(EvenShape(nodes, ranks), OperationKind::kAllReduce, plan, count);
}
WholeOperation InPlace(WholeOperation operation) {
  operation.in_place = true;
  return operation;
}

std::vector<Fault> PairingFaults() {
  const WholeOperation ring = AllReduce(2, 1, PlanKind::kRing, kLarge);
  return {
      {"missing_plan", ring, [](auto& plans) { plans.pop_back(); }, "plans of 1 nodes"},
      {"missing_receive", ring,
       [](auto& plans) { Remove(plans[1], Find(plans[1], StepKind::kReceive)); },
       "nobody receives this"},
      {"missing_send", ring, [](auto& plans) { Remove(plans[0], Find(plans[0], StepKind::kSend)); },
       "nobody sends this"},
      {"wrong_tag", ring, [](auto& plans) { Find(plans[0], StepKind::kSend).tag = 77; },
       "tag 77): nobody receives this"},
      {"tag_twice", ring, [](auto& plans) { Find(plans[0], StepKind::kSend, 1).tag = 0; },
       "this tag is used twice"},
      {"wrong_node", ring, [](auto& plans) { Find(plans[0], StepKind::kSend).node = 9; },
       "there is no such other node"},
      {"other_length", ring, [](auto& plans) { Find(plans[0], StepKind::kSend).bytes -= 4; },
       "lengths differ"},
      {"outside_the_buffer", ring,
       [](auto& plans) { Find(plans[0], StepKind::kSend).source.offset += 4 * kLarge; },
       "of the input of rank 0, which has 2097152"},
      {"no_such_local_rank", ring,
       [](auto& plans) { Find(plans[0], StepKind::kSend).source.local_rank = 1; },
       "there is no local rank 1"},
      {"half_an_element", ring, [](auto& plans) { Find(plans[0], StepKind::kSend).bytes -= 1; },
       "malformed"},
      {"other_check",
       MakeOperation(EvenShape(2, 1), OperationKind::kAllToAllV, PlanKind::kAutomatic, 100),
       [](auto& plans) { ++Find(plans[0], StepKind::kSend).check; }, "their checks differ"},
      {"nodes_choose_differently", ring,
       [](auto& plans) { plans[1].between_nodes = PlanKind::kTree; }, "has chosen tree"},
  };
}

std::vector<Fault> OrderFaults() {
  const WholeOperation ring = AllReduce(3, 1, PlanKind::kRing, kLarge);
  const WholeOperation gather =
      MakeOperation(EvenShape(5, 1), OperationKind::kAllGather, PlanKind::kRing, kLarge);
  return {
      {"later_predecessor", ring,
       [](auto& plans) {
         const auto at = plans[0].AfterOf(plans[0].steps[2]).data() - plans[0].after.data();
         plans[0].after[static_cast<std::size_t>(at)] = 5;
       },
       "which is not an earlier one"},
      // Each of two nodes grants its receive only when its own data has been sent.
      {"crossed_grants", InPlace(AllReduce(2, 1, PlanKind::kExchange, kLarge)),
       [](auto& plans) {
         for (Plan& plan : plans) {
           Step& receive = Find(plan, StepKind::kReduceReceived);
           const Step& send = Find(plan, StepKind::kSend);
           plan.after.push_back(static_cast<std::int32_t>(&send - plan.steps.data()));
           receive.after_begin = static_cast<std::uint32_t>(plan.after.size() - 1);
           receive.after_count = 1;
         }
       },
       "deadlock"},
      // Forwarded before it has arrived.
      {"dropped_edge_of_a_forward", gather,
       [](auto& plans) { DropEdges(Find(plans[0], StepKind::kSend, 1)); }, "race"},
      // The result overwrites the input that is still being sent.
      {"dropped_edge_in_place", InPlace(ring),
       [](auto& plans) { DropEdges(Find(plans[0], StepKind::kReceive)); }, "race"},
      // Combined before the others' contributions have arrived.
      {"dropped_edges_of_the_combination", AllReduce(4, 1, PlanKind::kExchange, 10),
       [](auto& plans) { DropEdges(plans[2].steps.back()); }, "race"},
      // Forwarded with another length: chunks no longer follow each other.
      {"chunks_out_of_step",
       MakeOperation(EvenShape(3, 1), OperationKind::kBroadcast, PlanKind::kRing, kLarge),
       [](auto& plans) { Find(plans[1], StepKind::kSend).source.offset += 400'000; }, "race"},
      // A slot is reused while it is being sent.
      {"slot_used_too_early",
       MakeOperation(EvenShape(8, 1), OperationKind::kReduceScatter, PlanKind::kRing, kLarge),
       [](auto& plans) { DropEdges(Find(plans[0], StepKind::kReduceReceived, 3)); }, "race"},
      // The fifth slice reuses a slice's scratch memory.
      {"slice_too_early", AllReduce(3, 1, PlanKind::kRing, kSlices),
       [](auto& plans) { DropEdges(Find(plans[0], StepKind::kReduceReceived, 16)); }, "race"},
      {"nobody_waits", MakeOperation(EvenShape(3, 1), OperationKind::kBarrier, PlanKind::kTree, 0),
       [](auto& plans) {
         for (Plan& plan : plans) {
           for (Step& step : plan.steps) DropEdges(step);
         }
       },
       "can finish before node"},
      {"starved_of_credit",
       MakeOperation(EvenShape(2, 20), OperationKind::kAllGather, PlanKind::kExchange, 10),
       [](auto& plans) {
         // Each waits for the message before it, which may follow it.
         std::int32_t last = Step::kNone;
         for (Step& step : plans[1].steps) {
           if (step.kind != StepKind::kReceive) continue;
           if (last != Step::kNone) {
             step.after_begin = static_cast<std::uint32_t>(plans[1].after.size());
             step.after_count = 1;
             plans[1].after.push_back(last);
           }
           last = static_cast<std::int32_t>(&step - plans[1].steps.data());
         }
       },
       "use up its credit"},
  };
}

std::vector<Fault> ResultFaults() {
  const WholeOperation ring = AllReduce(3, 1, PlanKind::kRing, 300);
  const WholeOperation exchange = AllReduce(3, 1, PlanKind::kExchange, 300);
  return {
      // The received data is reduced a second time.
      {"doubled_contribution", exchange,
       [](auto& plans) {
         Step& combine = plans[0].steps.back();
         combine.source_count = 2;
         combine.source_stride = 0;
       },
       "made of rank 0 + rank 0, final"},
      {"left_out_contribution", exchange,
       [](auto& plans) { plans[0].steps.back().source_count = 2; },
       "made of rank 0 + rank 1, final"},
      {"copied_instead_of_reduced", ring,
       [](auto& plans) { Find(plans[1], StepKind::kReduceReceived).kind = StepKind::kReceive; },
       "expected every rank once, final"},
      {"not_finished", ring,
       [](auto& plans) { Find(plans[1], StepKind::kReduceReceived, 1).finishes = false; },
       "expected every rank once, final"},
      {"finished_twice", ring,
       [](auto& plans) { Find(plans[1], StepKind::kReceive).finishes = true; },
       "finishes a value twice"},
      {"finished_on_the_way", ring,
       [](auto& plans) { Find(plans[1], StepKind::kReduceReceived).finishes = true; },
       "combines a value that is final already"},
      {"elements_mixed_up", ring,
       [](auto& plans) { Find(plans[0], StepKind::kReduceReceived).source.offset = 0; },
       "of the inputs"},
      {"combined_in_another_order", exchange,
       [](auto& plans) {
         Step& combine = plans[1].steps.back();
         combine.source.offset += 2 * combine.source_stride;
         combine.source_stride = -combine.source_stride;
       },
       "combined in a different order"},
      {"never_written",
       MakeOperation(EvenShape(2, 2), OperationKind::kBroadcast, PlanKind::kTree, 300),
       [](auto& plans) { Remove(plans[1], Find(plans[1], StepKind::kLocal)); },
       "where nobody has written anything"},
      {"received_in_another_order", AllReduce(2, 1, PlanKind::kExchange, 300),
       [](auto& plans) { plans[1].steps.back().received_first = false; },
       "combined in a different order"},
      {"read_before_written", exchange, [](auto& plans) { plans[0].steps.back().source_count = 4; },
       "scratch memory"},
      {"wrong_block",
       MakeOperation(EvenShape(4, 1), OperationKind::kAllToAll, PlanKind::kExchange, 300),
       [](auto& plans) { Find(plans[2], StepKind::kSend).source.offset = 0; },
       "from byte 0 of the inputs; expected rank 2 from byte 3600"},
      {"more_than_the_optimum", ring,
       [](auto& plans) {
         Step send = Find(plans[0], StepKind::kSend);
         Step receive = Find(plans[2], StepKind::kReceive);
         send.node = 1;
         send.tag = receive.tag = 99;
         send.source = {Place::Side::kInput, 0, 0};
         receive.node = 0;
         receive.destination = {Place::Side::kScratch, 0, plans[1].AddScratch(4)};
         send.bytes = receive.bytes = 4;
         plans[0].Add(send);
         plans[1].Add(receive);
       },
       "optimum"},
  };
}

class PlanVerifierTest : public testing::TestWithParam<Fault> {};

TEST_P(PlanVerifierTest, NamesAPlantedFault) {
  const Fault& fault = GetParam();
  std::vector<Plan> plans = MakePlans(fault.operation);
  ASSERT_TRUE(VerifyPlans(fault.operation, plans).ok());
  fault.plant(plans);
  const auto report = VerifyPlans(fault.operation, plans);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(std::string(report.status().message()), HasSubstr(fault.message));
}

std::string NameOf(const testing::TestParamInfo<Fault>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Pairing, PlanVerifierTest, testing::ValuesIn(PairingFaults()), NameOf);
INSTANTIATE_TEST_SUITE_P(Order, PlanVerifierTest, testing::ValuesIn(OrderFaults()), NameOf);
INSTANTIATE_TEST_SUITE_P(Result, PlanVerifierTest, testing::ValuesIn(ResultFaults()), NameOf);

// The report of a correct plan.
TEST(PlanReportTest, CountsBytesOnLinks) {
  const WholeOperation operation = AllReduce(2, 2, PlanKind::kRing, 1000);
  const auto report = VerifyPlans(operation, MakePlans(operation));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->between_nodes, PlanKind::kRing);
  EXPECT_EQ(report->nodes, 2);
  EXPECT_EQ(report->messages, 4u);
  // The optimum for two: each sends n bytes, half on the way out, half on the way back.
  EXPECT_THAT(report->link_bytes, testing::ElementsAre(0, 4000, 4000, 0));
}

}  // namespace
}  // namespace mlxcomm::collective::plan_verifier_test

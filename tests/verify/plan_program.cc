// Prints the plan of one operation: what every node does, step by step, and what each link carries.
//
//   plan_program all_reduce 2,2 64K         two ranks on each of two nodes, 64 KiB a rank
//   plan_program broadcast 1,1,1 1M tree    by this plan, not by the one that the cost model chooses
//
// Ranks are numbered node by node. The root is rank 0, the type float32, the operator sum.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/collective/plans/plans.h"
#include "tests/verify/plan_verifier.h"

namespace mlxcomm::collective {
namespace {

std::string PlaceText(const Place& place, const std::vector<std::uint32_t>& ranks) {
  static constexpr const char* kBuffers[] = {"input", "output", "scratch"};
  std::string text = kBuffers[static_cast<int>(place.side)];
  if (place.local_rank == Place::kEveryLocalRank) {
    text += " of all ranks";
  } else if (place.side != Place::Side::kScratch) {
    text += absl::StrCat(" of rank ", ranks[static_cast<std::size_t>(place.local_rank)]);
  }
  return absl::StrCat(text, " +", place.offset);
}

std::string StepText(const Step& step, const std::vector<std::uint32_t>& ranks) {
  const std::string source = PlaceText(step.source, ranks);
  const std::string destination = PlaceText(step.destination, ranks);
  switch (step.kind) {
    case StepKind::kSend:
      return absl::StrCat("send ", step.bytes, " to node ", step.node, " tag ", step.tag, " from ",
                          source);
    case StepKind::kReceive:
      return absl::StrCat("receive ", step.bytes, " from node ", step.node, " tag ", step.tag,
                          " to ", destination);
    case StepKind::kReduceReceived:
      return absl::StrCat("reduce ", step.bytes, " from node ", step.node, " tag ", step.tag,
                          " with ", source, " to ", destination);
    case StepKind::kLocal: break;
  }
  return absl::StrCat("combine ", step.bytes, " of ", step.source_count, " from ", source,
                      step.source_count > 1 ? absl::StrCat(" every ", step.source_stride) : "",
                      " to ", destination);
}

void PrintSteps(const WholeOperation& operation, const std::vector<Plan>& plans) {
  for (std::uint16_t node = 0; node < plans.size(); ++node) {
    std::printf("node %d\n", node);
    const GroupLayout layout = operation.LayoutAt(node);
    int number = 0;
    for (const Step& step : plans[node].steps) {
      std::printf("  %d %s", number++, StepText(step, layout.local_ranks()).c_str());
      for (const std::int32_t before : plans[node].AfterOf(step)) {
        std::printf(", after %d", before);
      }
      std::puts(step.finishes ? ", final" : "");
    }
  }
}

void PrintLinks(const PlanReport& report) {
  for (std::size_t i = 0; i < report.link_bytes.size(); ++i) {
    if (report.link_bytes[i] == 0) continue;
    std::printf("link %zu to %zu carries %" PRIu64 "\n", i / report.nodes, i % report.nodes,
                report.link_bytes[i]);
  }
}

// "64K": powers of 1024.
bool ReadBytes(std::string text, std::uint64_t& bytes) {
  int shift = 0;
  const std::string units = "KMG";
  if (const auto unit = units.find(text.empty() ? ' ' : text.back()); unit != std::string::npos) {
    shift = 10 * static_cast<int>(unit + 1);
    text.pop_back();
  }
  if (!absl::SimpleAtoi(text, &bytes) || bytes > std::uint64_t{1} << 20) return false;
  bytes <<= shift;
  return bytes % DataTypeBytes(DataType::kFloat32) == 0;
}

bool ReadMembers(const std::string& placement, std::vector<Member>& members) {
  std::uint8_t node = 0;
  for (const auto& text : absl::StrSplit(placement, ',')) {
    std::uint32_t ranks = 0;
    if (!absl::SimpleAtoi(text, &ranks) || ranks < 1 || ranks > kLocalRanksMax || node == 255) {
      return false;
    }
    Member member;
    member.node.bytes[0] = ++node;
    members.insert(members.end(), ranks, member);
  }
  return true;
}

int Run(const std::vector<std::string>& words) {
  WholeOperation operation;
  std::uint64_t bytes = 0;
  const auto* const kind = words.size() > 2 ? kOperations.FindNamed(words[0]) : nullptr;
  const auto* const plan = kPlanKinds.FindNamed(words.size() == 4 ? words[3] : "automatic");
  if (kind == nullptr || plan == nullptr || words.size() > 4 || IsPointToPoint(kind->value) ||
      !ReadMembers(words[1], operation.members) || !ReadBytes(words[2], bytes)) {
    std::fprintf(stderr,
                 "usage: plan_program OPERATION RANKS,RANKS... BYTES [PLAN]\n"
                 "operations: %s (not send, recv)\nplans: %s\n",
                 kOperations.Names(", ").c_str(), kPlanKinds.Names(", ").c_str());
    return 2;
  }
  operation.signature.kind = kind->value;
  operation.signature.plan = plan->value;
  operation.signature.op = Reduces(kind->value) ? ReduceOperator::kSum : ReduceOperator::kNone;
  operation.SetCount(IsEmpty(kind->value) ? 0 : bytes / DataTypeBytes(DataType::kFloat32));
  const std::vector<Plan> plans = MakePlans(operation);
  const PlanKind way = plans.front().between_nodes;
  Signature shown = operation.signature;
  shown.plan = PlanKind::kAutomatic;
  std::printf("%s of %u ranks on %zu nodes by %s\n", shown.Describe().c_str(), operation.size(),
              plans.size(), PlanKindName(way));
  PrintSteps(operation, plans);
  const absl::StatusOr<PlanReport> report = VerifyPlans(operation, plans);
  if (!report.ok()) {
    std::fprintf(stderr, "the plan is wrong: %s\n", std::string(report.status().message()).c_str());
    return 1;
  }
  PrintLinks(*report);
  std::printf("%" PRIu64 " steps, %" PRIu64 " messages, proved\n", report->steps, report->messages);
  return 0;
}

}  // namespace
}  // namespace mlxcomm::collective

int main(int argc, char** argv) {
  return mlxcomm::collective::Run(std::vector<std::string>(argv + 1, argv + argc));
}

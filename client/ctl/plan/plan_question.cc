#include "client/ctl/plan/plan_question.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/did_you_mean.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kLatencyNsMax = 1'000'000'000;
constexpr std::uint64_t kBytesPerSecondMin = 1'000'000;
constexpr std::uint64_t kBytesPerSecondMax = 1'000'000'000'000;
constexpr std::uint32_t kLinksPerNodeMax = 64;

// At most this much of a wrong name is repeated in a message.
constexpr std::size_t kShownMax = 40;

// The value with that name. INVALID_ARGUMENT lists the valid names.
template <typename Table>
absl::StatusOr<typename Table::Value> FindNamed(const char* what, const std::string& name,
                                                const Table& table) {
  const auto* const row = table.FindNamed(name);
  if (row != nullptr) return row->value;
  return absl::InvalidArgumentError(absl::StrCat("no such ", what, ": \"",
                                                 name.substr(0, kShownMax), "\"",
                                                 ExpectedOneOf(name, table.Names(", "))));
}

template <typename Number>
absl::Status CheckWithin(const char* what, Number value, Number least, Number most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be ", least, " to ", most, ", not ", value));
}

absl::Status CheckCosts(const PlanOptions& given) {
  absl::Status status =
      CheckWithin<std::uint64_t>("--latency, in nanoseconds,", given.latency_ns, 0, kLatencyNsMax);
  if (given.bytes_per_second != 0) {
    status.Update(CheckWithin("--bandwidth, in bytes a second,", given.bytes_per_second,
                              kBytesPerSecondMin, kBytesPerSecondMax));
  }
  status.Update(CheckWithin("--links", given.links_per_node, 0u, kLinksPerNodeMax));
  return status;
}

absl::Status CheckShape(const PlanOptions& options) {
  absl::Status status = CheckWithin("--nodes", options.nodes, 1u, kPlanNodesMax);
  status.Update(CheckWithin("--ranks-per-node", options.ranks_per_node, 1u, kPlanRanksPerNodeMax));
  if (!status.ok()) return status;
  return CheckWithin("--nodes x --ranks-per-node", options.nodes * options.ranks_per_node, 1u,
                     kPlanRanksMax);
}

absl::Status ReadOperator(const PlanOptions& options, collective::Signature& signature) {
  std::string name = options.reduce_operator;
  const bool reduces = Reduces(signature.kind);
  if (name.empty()) name = reduces ? "sum" : "none";
  const auto op = FindNamed("operator", name, kReduceOperators);
  if (!op.ok()) return op.status();
  if (reduces != (*op != ReduceOperator::kNone)) {
    return absl::InvalidArgumentError(
        absl::StrCat(OperationKindName(signature.kind),
                     reduces ? " needs an operator" : " does not reduce and takes no operator"));
  }
  if (!HasMeaning(signature.type, *op)) {
    return absl::InvalidArgumentError(absl::StrCat(ReduceOperatorName(*op), " has no meaning for ",
                                                   DataTypeName(signature.type)));
  }
  signature.op = *op;
  return absl::OkStatus();
}

absl::Status ReadSize(const PlanOptions& options, collective::Signature& signature) {
  if (IsEmpty(signature.kind) && options.bytes.value_or(0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(OperationKindName(signature.kind), " moves nothing: --bytes must be 0"));
  }
  const std::uint64_t element = DataTypeBytes(signature.type);
  absl::Status status =
      CheckWithin<std::uint64_t>("--bytes", options.bytes.value_or(0), 0, kPlanBytesMax);
  if (status.ok() && options.bytes.value_or(0) % element != 0) {
    status = absl::InvalidArgumentError(absl::StrCat("--bytes must be a multiple of ", element,
                                                     ", for ", DataTypeName(signature.type),
                                                     ", not ", options.bytes.value_or(0)));
  }
  signature.count = options.bytes.value_or(0) / element;
  return status;
}

absl::StatusOr<collective::Signature> ReadSignature(const PlanOptions& options) {
  collective::Signature signature;
  const auto kind = FindNamed("operation", options.operation, kOperations);
  if (!kind.ok()) return kind.status();
  if (IsPointToPoint(*kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(OperationKindName(*kind), " is one message: there is nothing to plan"));
  }
  signature.kind = *kind;
  const auto type =
      FindNamed("data type", options.data_type.empty() ? "float32" : options.data_type, kDataTypes);
  if (!type.ok()) return type.status();
  signature.type = *type;
  absl::Status status = ReadOperator(options, signature);
  status.Update(ReadSize(options, signature));
  const std::uint32_t ranks = options.nodes * options.ranks_per_node;
  status.Update(CheckWithin("--root", options.root, 0u, HasRoot(*kind) ? ranks - 1 : 0u));
  if (!status.ok()) return status;
  signature.root = options.root;
  const auto plan =
      FindNamed("plan", options.plan.empty() ? "automatic" : options.plan, kPlanKinds);
  if (!plan.ok()) return plan.status();
  signature.plan = *plan;
  return signature;
}

std::vector<collective::Member> MakeMembers(const PlanOptions& options) {
  std::vector<collective::Member> members;
  for (std::uint32_t node = 0; node < options.nodes; ++node) {
    collective::Member member;
    member.node.bytes[0] = static_cast<std::uint8_t>(node + 1);
    member.node_name = absl::StrCat("node ", node);
    members.insert(members.end(), options.ranks_per_node, member);
  }
  return members;
}

// A forced plan that is not available would be replaced without a word.
absl::Status CheckPlan(const collective::WholeOperation& operation) {
  const collective::Signature& signature = operation.signature;
  if (signature.plan == PlanKind::kAutomatic) return absl::OkStatus();
  const collective::GroupLayout layout = operation.LayoutAt(0);
  if (collective::OffersPlan(signature.kind, signature.plan, layout)) return absl::OkStatus();
  if (layout.node_count() == 1) {
    return absl::InvalidArgumentError("on one node there is no plan to choose: leave it out");
  }
  std::string offered;
  for (const PlanKind plan : collective::PlansFor(signature.kind, layout)) {
    absl::StrAppend(&offered, offered.empty() ? "" : ", ", PlanKindName(plan));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      OperationKindName(signature.kind), " cannot go by ", PlanKindName(signature.plan), " on ",
      layout.node_count(), " nodes; it can by ", offered));
}

}  // namespace

bool NeedsOwnCosts(const PlanOptions& options) {
  return options.latency_ns == 0 || options.bytes_per_second == 0 || options.links_per_node == 0;
}

PlanCosts ChooseCosts(const PlanOptions& options, const v1::LinkCosts& own) {
  PlanCosts chosen;
  const auto choose = [](auto asked, auto seen, auto least, auto most, auto& value,
                         const char*& source) {
    if (asked == 0 && seen == 0) return;
    // A daemon may report any number.
    value = asked != 0 ? asked : std::clamp(seen, least, most);
    source = asked != 0 ? "given" : "this node";
  };
  choose(options.latency_ns, own.latency_ns(), std::uint64_t{1}, kLatencyNsMax,
         chosen.costs.latency_ns, chosen.latency_source);
  choose(options.bytes_per_second, own.bytes_per_second(), kBytesPerSecondMin, kBytesPerSecondMax,
         chosen.costs.bytes_per_second, chosen.bytes_per_second_source);
  choose(options.links_per_node, own.links_per_node(), 1u, kLinksPerNodeMax,
         chosen.costs.links_per_node, chosen.links_per_node_source);
  return chosen;
}

absl::StatusOr<collective::WholeOperation> ReadPlanQuestion(const PlanOptions& options,
                                                            const collective::LinkCosts& costs) {
  absl::Status status = CheckShape(options);
  status.Update(CheckCosts(options));
  if (!status.ok()) return status;
  const absl::StatusOr<collective::Signature> signature = ReadSignature(options);
  if (!signature.ok()) return signature.status();
  collective::WholeOperation operation;
  operation.signature = *signature;
  operation.members = MakeMembers(options);
  operation.costs = costs;
  operation.SetCount(signature->count);
  status = CheckPlan(operation);
  if (!status.ok()) return status;
  return operation;
}

}  // namespace mlxcomm::ctl

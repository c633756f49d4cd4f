#include "daemon/control/plan_request.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::control {
namespace {

constexpr std::uint64_t kLatencyNsMax = 1'000'000'000;
constexpr std::uint64_t kBytesPerSecondMin = 1'000'000;
constexpr std::uint64_t kBytesPerSecondMax = 1'000'000'000'000;
constexpr std::uint32_t kLinksPerNodeMax = 64;

// What a message repeats of a name that somebody made up.
constexpr std::size_t kShownMax = 40;

// The value of that name. INVALID_ARGUMENT lists the names that there are.
template <typename Table>
absl::StatusOr<typename Table::Value> FindNamed(const char* what, const std::string& name,
                                                const Table& table) {
  const auto* const row = table.FindNamed(name);
  if (row != nullptr) return row->value;
  return absl::InvalidArgumentError(absl::StrCat(
      "no such ", what, ": \"", name.substr(0, kShownMax), "\"; there are ", table.Names(", ")));
}

template <typename Number>
absl::Status CheckWithin(const char* what, Number value, Number least, Number most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be ", least, " to ", most, ", not ", value));
}

absl::Status CheckCosts(const v1::LinkCosts& given) {
  absl::Status status =
      CheckWithin<std::uint64_t>("latency_ns", given.latency_ns(), 0, kLatencyNsMax);
  if (given.bytes_per_second() != 0) {
    status.Update(CheckWithin("bytes_per_second", given.bytes_per_second(), kBytesPerSecondMin,
                              kBytesPerSecondMax));
  }
  status.Update(CheckWithin("links_per_node", given.links_per_node(), 0u, kLinksPerNodeMax));
  return status;
}

absl::Status CheckShape(const v1::PlanRequest& request) {
  absl::Status status = CheckWithin("nodes", request.nodes(), 1u, kPlanNodesMax);
  status.Update(CheckWithin("ranks_per_node", request.ranks_per_node(), 1u, kPlanRanksPerNodeMax));
  if (!status.ok()) return status;
  return CheckWithin("nodes x ranks_per_node", request.nodes() * request.ranks_per_node(), 1u,
                     kPlanRanksMax);
}

absl::Status ReadOperator(const v1::PlanRequest& request, collective::Signature& signature) {
  std::string name = request.reduce_operator();
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

absl::Status ReadSize(const v1::PlanRequest& request, collective::Signature& signature) {
  if (IsEmpty(signature.kind) && request.bytes() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(OperationKindName(signature.kind), " moves nothing: bytes must be 0"));
  }
  const std::uint64_t element = DataTypeBytes(signature.type);
  absl::Status status = CheckWithin<std::uint64_t>("bytes", request.bytes(), 0, kPlanBytesMax);
  if (status.ok() && request.bytes() % element != 0) {
    status = absl::InvalidArgumentError(absl::StrCat("bytes must be a multiple of ", element,
                                                     ", for ", DataTypeName(signature.type),
                                                     ", not ", request.bytes()));
  }
  signature.count = request.bytes() / element;
  return status;
}

absl::StatusOr<collective::Signature> ReadSignature(const v1::PlanRequest& request) {
  collective::Signature signature;
  const auto kind = FindNamed("operation", request.operation(), kOperations);
  if (!kind.ok()) return kind.status();
  if (IsPointToPoint(*kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(OperationKindName(*kind), " is one message: there is nothing to plan"));
  }
  signature.kind = *kind;
  const auto type = FindNamed(
      "data type", request.data_type().empty() ? "float32" : request.data_type(), kDataTypes);
  if (!type.ok()) return type.status();
  signature.type = *type;
  absl::Status status = ReadOperator(request, signature);
  status.Update(ReadSize(request, signature));
  const std::uint32_t ranks = request.nodes() * request.ranks_per_node();
  status.Update(CheckWithin("root", request.root(), 0u, HasRoot(*kind) ? ranks - 1 : 0u));
  if (!status.ok()) return status;
  signature.root = request.root();
  const auto plan =
      FindNamed("plan", request.plan().empty() ? "automatic" : request.plan(), kPlanKinds);
  if (!plan.ok()) return plan.status();
  signature.plan = *plan;
  return signature;
}

std::vector<collective::Member> MakeMembers(const v1::PlanRequest& request) {
  std::vector<collective::Member> members;
  for (std::uint32_t node = 0; node < request.nodes(); ++node) {
    collective::Member member;
    member.node.bytes[0] = static_cast<std::uint8_t>(node + 1);
    member.node_name = absl::StrCat("node ", node);
    members.insert(members.end(), request.ranks_per_node(), member);
  }
  return members;
}

// A forced plan that cannot be had would be replaced without a word.
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

bool NeedsOwnCosts(const v1::PlanRequest& request) {
  const v1::LinkCosts& given = request.costs();
  return given.latency_ns() == 0 || given.bytes_per_second() == 0 || given.links_per_node() == 0;
}

PlanCosts ChooseCosts(const v1::LinkCosts& given, const v1::LinkCosts& own) {
  PlanCosts chosen;
  const auto choose = [](auto asked, auto seen, auto& value, const char*& source) {
    if (asked == 0 && seen == 0) return;
    value = asked != 0 ? asked : seen;
    source = asked != 0 ? "given" : "this node";
  };
  choose(given.latency_ns(), own.latency_ns(), chosen.costs.latency_ns, chosen.latency_source);
  choose(given.bytes_per_second(), own.bytes_per_second(), chosen.costs.bytes_per_second,
         chosen.bytes_per_second_source);
  choose(given.links_per_node(), own.links_per_node(), chosen.costs.links_per_node,
         chosen.links_per_node_source);
  return chosen;
}

absl::StatusOr<collective::WholeOperation> ReadPlanRequest(const v1::PlanRequest& request,
                                                           const collective::LinkCosts& costs) {
  absl::Status status = CheckShape(request);
  status.Update(CheckCosts(request.costs()));
  if (!status.ok()) return status;
  const absl::StatusOr<collective::Signature> signature = ReadSignature(request);
  if (!signature.ok()) return signature.status();
  collective::WholeOperation operation;
  operation.signature = *signature;
  operation.members = MakeMembers(request);
  operation.costs = costs;
  operation.SetCount(signature->count);
  status = CheckPlan(operation);
  if (!status.ok()) return status;
  return operation;
}

}  // namespace mlxcomm::control

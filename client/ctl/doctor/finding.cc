#include "client/ctl/doctor/finding.h"

#include <algorithm>

#include "proto/types/invariant.h"

namespace mlxcomm::ctl {
namespace {

bool IsRdma(const FindingKind& kind) {
  return kind.reasons[0] >= v1::LinkReason::rdma_looking &&
         kind.reasons[0] <= v1::LinkReason::rdma_not_made;
}

const FindingKind* Of(v1::LinkReason::Value reason, bool rdma) {
  if (reason == v1::LinkReason::none) return nullptr;
  for (const FindingKind& kind : FindingKinds()) {
    const auto& reasons = kind.reasons;
    if (IsRdma(kind) == rdma && std::ranges::find(reasons, reason) != reasons.end()) return &kind;
  }
  return nullptr;
}

// Replaces {name} by its value; "rdma { enabled: true }" contains no name.
std::string Filled(std::string_view text, const Findings::Values& values) {
  std::string out;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open + 1);
    const std::size_t close = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
    const bool is_name = close != std::string_view::npos && close > 0 && text[close] == '}';
    const auto value = std::ranges::find_if(
        values, [&](const auto& one) { return is_name && one.first == text.substr(0, close); });
    if (value == values.end()) {
      out += '{';
      continue;
    }
    out += value->second;
    text.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

const char* SeverityText(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
    case Severity::kOk: return "ok";
  }
  return "note";
}

const FindingKind* KindOf(std::string_view id) {
  const std::span<const FindingKind> kinds = FindingKinds();
  const auto found = std::ranges::find(kinds, id, &FindingKind::id);
  return found == kinds.end() ? nullptr : &*found;
}

const FindingKind* KindOfLink(v1::LinkReason::Value reason) { return Of(reason, /*rdma=*/false); }
const FindingKind* KindOfRdma(v1::LinkReason::Value reason) { return Of(reason, /*rdma=*/true); }

void Findings::Add(std::string_view id, std::string object, const Values& values, Fix fix) {
  const FindingKind* const kind = KindOf(id);
  MLXCOMM_INVARIANT(kind != nullptr);
  all_.push_back({std::string(id), std::string(kind->code()), std::move(object),
                  Filled(kind->found, values), Filled(kind->expected, values),
                  Filled(kind->remedy, values), std::move(fix)});
}

bool Findings::IsConsequence(const Finding& finding) const {
  const FindingKind& kind = *KindOf(finding.id);
  // A less severe finding cannot be the cause.
  return std::ranges::any_of(all_, [&kind](const Finding& other) {
    return KindOf(other.id)->severity <= kind.severity &&
           std::ranges::find(kind.depends_on, other.id) != kind.depends_on.end();
  });
}

std::vector<Finding> Findings::Sorted() const {
  std::vector<Finding> sorted;
  for (const Finding& finding : all_) {
    if (!IsConsequence(finding)) sorted.push_back(finding);
  }
  std::ranges::stable_sort(sorted, {}, [](const Finding& finding) {
    return std::pair(KindOf(finding.code)->severity, finding.code);
  });
  return sorted;
}

}  // namespace mlxcomm::ctl

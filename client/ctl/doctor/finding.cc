#include "client/ctl/doctor/finding.h"

#include <algorithm>

#include "client/ctl/doctor/section.h"
#include "proto/types/invariant.h"

namespace mlxcomm::ctl {
namespace {

// Replaces {name} by its value; "discovery { enabled: true }" contains no name.
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

std::span<const FindingKind> FindingKinds() {
  static const std::vector<FindingKind> kAll = [] {
    const auto general = GeneralFindingKinds();
    std::vector<FindingKind> rows(general.begin(), general.end());
    for (const Section* const section : Sections()) {
      const auto its = section->kinds();
      rows.insert(rows.end(), its.begin(), its.end());
    }
    std::ranges::stable_sort(rows, {}, &FindingKind::code);
    const FindingKind* first = nullptr;
    for (FindingKind& row : rows) {
      if (row.id == row.code()) first = &row;
      if (row.found.empty()) row.found = first->found;
      if (row.expected.empty()) row.expected = first->expected;
      if (row.remedy.empty()) row.remedy = first->remedy;
    }
    return rows;
  }();
  return kAll;
}

const FindingKind* KindOf(std::string_view id) {
  const std::span<const FindingKind> kinds = FindingKinds();
  const auto found = std::ranges::find(kinds, id, &FindingKind::id);
  return found == kinds.end() ? nullptr : &*found;
}

std::string_view IdOf(v1::LinkReason::Value reason, std::span<const FindingKind> kinds) {
  if (reason == v1::LinkReason::none) return {};
  for (const FindingKind& kind : kinds) {
    if (std::ranges::find(kind.reasons, reason) != kind.reasons.end()) return kind.id;
  }
  return {};
}

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

// The table of findings, and the findings of a run. A row has a finding's code, severity and texts,
// the link reasons that it covers, and the findings that may cause it. The checks (check.h) choose
// rows, objects and values; only the table has sentences.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

enum class Severity : std::uint8_t { kError, kWarning, kNote, kOk };
const char* SeverityText(Severity severity);  // "error", "warning", "note", "ok"

// Codes are for scripts and searches: their meaning never changes.
//   1xx daemon and key   2xx this machine's network   3xx its cables
//   4xx its system       5xx the cluster
struct FindingKind {
  // "MC305"; "MC305/routed" has other texts, and the severity and title of MC305.
  std::string_view id;
  Severity severity = Severity::kNote;
  std::string_view title = {};
  // The check's values replace {names}.
  std::string_view found = {};
  std::string_view expected = {};
  std::string_view remedy = {};
  // Why a link or a rail is not up.
  std::array<v1::LinkReason::Value, 8> reasons = {};
  // If one of these ids is found too, this finding is its consequence and is not shown.
  std::array<std::string_view, 18> depends_on = {};
  // The link's fault explains why the node behind it is lost: its machine is not to blame.
  bool explains_loss = false;

  constexpr std::string_view code() const { return id.substr(0, id.find('/')); }
};
template <typename... Reasons>
constexpr decltype(FindingKind::reasons) Of(Reasons... reasons) {
  return {reasons...};
}

// All rows, with those of sections (section.h), by code. The first row of each code has its title;
// a further one has the first one's texts if it leaves them out.
std::span<const FindingKind> FindingKinds();
std::span<const FindingKind> GeneralFindingKinds();  // Without those of sections.
// Finds a row by its id; nullptr: none.
const FindingKind* KindOf(std::string_view id);
// Finds the id of the row for a reason (empty if there is none).
std::string_view IdOf(v1::LinkReason::Value reason, std::span<const FindingKind> kinds);

struct Fix {
  std::vector<std::vector<std::string>> commands;  // Run in order, until one fails.
  bool safe = false;  // `--fix --yes` runs it, because it changes nothing else.
};

struct Finding {
  std::string id;      // Its row's.
  std::string code;    // "MC305"
  std::string object;  // "interface en2", "link studio-1 to studio-2"
  std::string found;
  std::string expected;
  std::string remedy;
  Fix fix;
};

class Findings {
 public:
  using Values = std::vector<std::pair<std::string_view, std::string>>;
  // Aborts if the table has no such id.
  void Add(std::string_view id, std::string object, const Values& values = {}, Fix fix = {});
  // Returns the findings by severity, worst first, then by code. Leaves out consequences of others.
  std::vector<Finding> Sorted() const;

 private:
  bool IsConsequence(const Finding& finding) const;
  std::vector<Finding> all_;
};

}  // namespace mlxcomm::ctl

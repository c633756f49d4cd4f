// All that doctor can find, as a table, and what it has found. A row holds all that is known about
// a finding: its code, severity and texts, the reasons of links that it covers, and the other
// findings of which it may be a mere consequence. The checks (check.h) decide which rows apply to
// which objects, and with which figures; sentences are made here alone.
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

// Codes are for scripts and searches: they never change their meaning.
//   1xx daemon and key   2xx this machine's network   3xx its cables
//   4xx its system       5xx the cluster    6xx other hosts, by ssh
struct FindingKind {
  // "MC305"; "MC305/routed": the same finding with another text, and the severity and title of the first.
  std::string_view id;
  Severity severity = Severity::kNote;
  std::string_view title = {};
  // With the check's values in place of {names}.
  std::string_view found = {};
  std::string_view expected = {};
  std::string_view remedy = {};
  // The reasons of a link, or of an RDMA rail, that is not up.
  std::array<v1::LinkReason::Value, 8> reasons = {};
  // Ids: where one of those is found too, this is its consequence, and is not shown.
  std::array<std::string_view, 18> depends_on = {};
  // Of a link: why the node behind it is lost, which then is no fault of its machine.
  bool explains_loss = false;

  constexpr std::string_view code() const { return id.substr(0, id.find('/')); }
};
// All rows; of each code first the one that has its title.
std::span<const FindingKind> FindingKinds();
// By its id, or by a code, which gives its first row; nullptr: there is none.
const FindingKind* KindOf(std::string_view id);
// nullptr: a reason of the other kind, or one that has no finding.
const FindingKind* KindOfLink(v1::LinkReason::Value reason);
const FindingKind* KindOfRdma(v1::LinkReason::Value reason);

struct Fix {
  std::vector<std::string> command;  // Its words; empty: there is no command.
  bool safe = false;                 // Changes nothing else: `--fix --yes` runs it.
  // Later ones, each run only if all before it succeeded.
  std::vector<std::vector<std::string>> then = {};
};

struct Finding {
  std::string id;      // Of its row.
  std::string code;    // "MC305"
  std::string object;  // "interface en2", "link studio-1 to studio-2"
  std::string found;
  std::string expected;
  std::string remedy;  // For people.
  Fix fix;
};

class Findings {
 public:
  using Values = std::vector<std::pair<std::string_view, std::string>>;
  // Aborts on an id that is not in the table: every finding must be documented.
  void Add(std::string_view id, std::string object, const Values& values = {}, Fix fix = {});
  // Without those that are consequences. The worst first, then in the order of their codes.
  std::vector<Finding> Sorted() const;
  bool Any(Severity severity) const;

 private:
  bool IsConsequence(const Finding& finding) const;
  std::vector<Finding> all_;
};

}  // namespace mlxcomm::ctl

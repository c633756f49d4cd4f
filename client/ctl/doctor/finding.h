// What doctor has found: one of the codes below, about one object, with the remedy.
//
// Owner: none; plain values. Thread: any. Memory: plain values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

enum class Severity : std::uint8_t { kError, kWarning, kNote, kOk };
const char* SeverityText(Severity severity);  // "error", "warning", "note", "ok"

// A kind of finding. Codes are for scripts and searches: they never change their meaning.
//   1xx daemon and key   2xx this machine's network   3xx its cables
//   4xx its system       5xx the cluster    6xx other hosts, by ssh
struct FindingKind {
  std::string_view code;  // "MC101"
  Severity severity = Severity::kNote;
  std::string_view title;
};
std::span<const FindingKind> FindingKinds();
const FindingKind* KindOf(std::string_view code);

struct Fix {
  std::vector<std::string> command;  // Its words; empty: there is no command for it.
  bool safe = false;                 // Mends without breaking anything else: `--fix --yes` runs it.
  std::vector<std::vector<std::string>> then = {};  // Further ones, each if all before it did well.
};

struct Finding {
  std::string code;
  std::string object;  // "interface en2", "link studio-1 to studio-2"
  std::string found;
  std::string expected;
  std::string remedy;  // For people.
  Fix fix;
};

class Findings {
 public:
  // Aborts on a code that is not in the table: what is found must be documented.
  void Add(Finding finding);
  // The worst first; in the order of their codes.
  std::vector<Finding> Sorted() const;
  bool Any(Severity severity) const;

 private:
  std::vector<Finding> all_;
};

}  // namespace mlxcomm::ctl

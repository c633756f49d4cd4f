#include "client/ctl/doctor/render_doctor.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/launch/ssh_command.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

std::size_t Count(std::span<const Finding> findings, Severity severity) {
  std::size_t count = 0;
  for (const Finding& finding : findings) count += KindOf(finding.code)->severity == severity;
  return count;
}

const char* ColourOf(Severity severity) {
  switch (severity) {
    case Severity::kError: return "31";
    case Severity::kWarning: return "33";
    case Severity::kNote: return "36";
    case Severity::kOk: return "32";
  }
  return "0";
}

// Other programs' output may have several lines.
std::string Indented(const std::string& text) {
  const auto show = [](std::string* out, const std::string& line) { out->append(Shown(line)); };
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  return absl::StrJoin(lines, "\n           ", show);
}

}  // namespace

std::string CommandLine(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-./:@%+=,") == std::string::npos;
    out += (out.empty() ? "" : " ") + (plain ? word : ShellWord(word));
  }
  return out;
}

std::string CommandLine(const Fix& fix) {
  std::string out;
  for (const std::vector<std::string>& words : fix.commands)
    out += (out.empty() ? "" : " && ") + CommandLine(words);
  return out;
}

std::string RenderFindings(std::span<const Finding> findings, bool all, bool colours) {
  std::string out;
  for (const Finding& finding : findings) {
    const FindingKind& kind = *KindOf(finding.code);
    if (kind.severity == Severity::kOk && !all) continue;
    std::string severity = SeverityText(kind.severity);
    severity.resize(7, ' ');
    out += Coloured(ColourOf(kind.severity), severity, colours) + "  " + finding.code + "  " +
           Shown(finding.object) + ": " + std::string(kind.title) + "\n";
    if (!finding.found.empty()) out += "  found    " + Indented(finding.found) + "\n";
    if (!finding.expected.empty()) out += "  expected " + Indented(finding.expected) + "\n";
    if (!finding.remedy.empty()) out += "  remedy   " + Indented(finding.remedy) + "\n";
    if (!finding.fix.commands.empty()) {
      out += "  command  " + Shown(CommandLine(finding.fix)) + "\n";
    }
  }
  const std::size_t errors = Count(findings, Severity::kError);
  const std::size_t warnings = Count(findings, Severity::kWarning);
  const std::size_t notes = Count(findings, Severity::kNote);
  if (errors + warnings + notes == 0) return out + "nothing is wrong\n";
  return out + Plural(errors, "error") + ", " + Plural(warnings, "warning") + ", " +
         Plural(notes, "note") + "\n";
}

std::string FindingsAsJson(std::span<const Finding> findings) {
  v1::DoctorReport report;
  for (const Finding& finding : findings) {
    const FindingKind& kind = *KindOf(finding.code);
    v1::DoctorFinding& reported = *report.add_findings();
    reported.set_code(finding.code);
    reported.set_severity(SeverityText(kind.severity));
    reported.set_title(std::string(kind.title));
    reported.set_object(Shown(finding.object));
    reported.set_found(Shown(finding.found));
    reported.set_expected(Shown(finding.expected));
    reported.set_remedy(Shown(finding.remedy));
    reported.set_command(Shown(CommandLine(finding.fix)));
    reported.set_safe(finding.fix.safe && !finding.fix.commands.empty());
  }
  report.set_errors(static_cast<std::uint32_t>(Count(findings, Severity::kError)));
  report.set_warnings(static_cast<std::uint32_t>(Count(findings, Severity::kWarning)));
  report.set_notes(static_cast<std::uint32_t>(Count(findings, Severity::kNote)));
  return JsonOf(std::move(report));
}

std::string RenderCodes() {
  std::string out = "| code | severity | finding |\n|---|---|---|\n";
  for (const FindingKind& kind : FindingKinds()) {
    if (kind.id != kind.code()) continue;  // It differs only in its texts.
    out += "| " + std::string(kind.id) + " | " + SeverityText(kind.severity) + " | " +
           std::string(kind.title) + " |\n";
  }
  return out;
}

}  // namespace mlxcomm::ctl

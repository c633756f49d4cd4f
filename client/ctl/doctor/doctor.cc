// The verb doctor: gathers facts, checks them, shows the findings, and fixes them on demand.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/doctor/collect.h"
#include "client/ctl/doctor/diagnosis.h"
#include "client/ctl/doctor/render_doctor.h"
#include "proto/system/program.h"
#include "proto/types/version.h"

namespace mlxcomm::ctl {
namespace {

struct DoctorOptions {
  std::string called;  // argv[0].
  std::string socket_path;
  std::string config_file;
  bool json = false;
  bool all = false;
  bool fix = false;
  bool yes = false;
  bool codes = false;
  std::uint64_t recent_ns = 600'000'000'000;
};

ClusterFacts AskDaemon(const std::string& socket_path) {
  ClusterFacts cluster;
  Failure failure = FetchStatus(socket_path, cluster.status);
  if (failure.ok()) failure = FetchCheckups(socket_path, cluster.checkups);
  if (failure.ok()) failure = FetchTopology(socket_path, cluster.topology);
  cluster.daemon_answers = failure.ok();
  cluster.daemon_refuses = failure.code == FailureCode::kResourceExhausted ||
                           failure.code == FailureCode::kPermissionDenied;
  cluster.daemon_is_silent = failure.code == FailureCode::kUnavailable &&
                             !failure.message.ends_with(kHowToStartIt) &&
                             !failure.message.ends_with(kNotAllowed);
  cluster.why_not = std::string(absl::StripSuffix(failure.message, kHowToStartIt));
  return cluster;
}

// Runs the commands until one fails. Returns that one's output, or empty.
std::string RunFix(const Fix& fix) {
  for (const std::vector<std::string>& words : fix.commands) {
    const auto output = RunProgram(words, {.with_errors = true});
    if (output.ok() && output->exit_code == 0) continue;
    std::string message = output.ok() ? output->text : std::string(output.status().message());
    while (message.ends_with('\n')) message.pop_back();
    if (message.empty()) message = "ended with " + std::to_string(output->exit_code);
    return fix.commands.size() == 1 ? message : CommandLine(words) + ": " + message;
  }
  return {};
}

// Shows the fixes, or runs the safe ones. False if one failed.
bool ApplyFixes(const std::vector<Finding>& findings, bool yes) {
  bool well = true;
  for (const Finding& finding : findings) {
    if (finding.fix.commands.empty()) continue;
    const std::string line = finding.code + "  " + CommandLine(finding.fix);
    if (!finding.fix.safe) {
      WriteOut(line + "\n  doctor does not run this: run it if appropriate\n", "findings");
      continue;
    }
    if (!yes) {
      WriteOut(line + "\n  mlxcommctl doctor --fix --yes runs this\n", "findings");
      continue;
    }
    const std::string failure = RunFix(finding.fix);
    well = well && failure.empty();
    WriteOut(line + "\n  " + (failure.empty() ? "done" : "failed: " + failure) + "\n", "findings");
  }
  return well;
}

int RunDoctor(const DoctorOptions& options) {
  if (options.codes) return WriteOut(RenderCodes(), "codes");
  DiagnosisOptions how{OwnPath(options.called), options.socket_path, options.config_file};
  how.recent_ns = options.recent_ns;
  std::vector<Finding> findings = Diagnose(how);
  const std::string text = options.json ? FindingsAsJson(findings)
                                        : RenderFindings(findings, options.all, ColoursWanted());
  if (const int code = WriteOut(text, "findings"); code != 0) return code;
  if (options.fix) {
    if (!ApplyFixes(findings, options.yes)) return kExitFailed;
    if (options.yes) findings = Diagnose(how);
  }
  // The worst finding is first.
  const Severity worst = findings.empty() ? Severity::kOk : KindOf(findings.front().code)->severity;
  if (worst == Severity::kError) return kExitFailed;
  return worst == Severity::kWarning ? kExitWarnings : 0;
}

}  // namespace

std::vector<Finding> Diagnose(const DiagnosisOptions& options) {
  Facts facts;
  facts.own_version = kSoftwareVersion;
  facts.recent_ms = options.recent_ns / 1'000'000;
  facts.cluster = AskDaemon(options.socket_path);
  CollectOptions how;
  how.config_file = options.config_file;
  if (how.config_file.empty()) how.config_file = OwnCheckup(facts.cluster).config_file();
  how.key_file = OwnCheckup(facts.cluster).key_file();
  // Without a daemon the self test would start one; a draining daemon takes no job.
  if (facts.cluster.daemon_answers && !OwnStatus(facts.cluster).has_drain() && options.python) {
    how.python.pythons = FindPythons(options.own_path, std::getenv("PATH"));
    how.python.socket_path = options.socket_path;
  }
  facts.system = CollectSystem(how);
  return Check(facts).Sorted();
}

Run AddDoctor(CLI::App& doctor, const Invocation& invocation) {
  const auto options = std::make_shared<DoctorOptions>();
  options->called = invocation.called;
  AddSocket(doctor, options->socket_path);
  AddConfig(doctor, options->config_file);
  CLI::Option* const json =
      doctor.add_flag("--json", options->json, "Print JSON; the meaning of a code never changes");
  doctor.add_flag("--all", options->all, "Also show checks that passed");
  CLI::Option* const fix =
      doctor.add_flag("--fix", options->fix, "Show the commands that would fix the findings")
          ->excludes(json);
  doctor.add_flag("--yes", options->yes, "With --fix, run the commands that are safe")->needs(fix);
  doctor.add_flag("--codes", options->codes, "List all findings")->excludes(json);
  constexpr std::uint64_t kSecondNs = 1'000'000'000;
  AddDuration(doctor, "--recent", options->recent_ns, kSecondNs / 1000, 86'400 * kSecondNs,
              "How far back refusals and corrupted data are reported (10m)");
  doctor.footer(
      R"(Checks this machine (interfaces, bridges, ports of cables and devices, firewall, sleep,
clock), the configuration and the key file, and through the daemon all nodes and cables.
Without a daemon it does the rest, and reports why none answers. Anything it cannot check is
reported as a note, not as an error.

With a daemon it runs the self test of the Python package beside mlxcommctl, or of the
python3 in PATH, for at most a minute. The test shows whether results are in the daemon's
memory or copied. A cable's speed is judged only after jobs have filled it with 64 MiB, as
mlxcommctl bench does.

--fix --yes runs the safe commands (a key file's mode, an interface that is off or in a
bridge, sleep, the clock) as this user, and checks again. It only shows the others.)");
  return [options] { return RunDoctor(*options); };
}

}  // namespace mlxcomm::ctl

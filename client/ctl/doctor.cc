// The verb doctor: gathers facts, checks them, shows what was found, and on demand mends it.
#include <cstdio>
#include <vector>

#include "client/ctl/daemon_call.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/doctor/collect.h"
#include "client/ctl/doctor/program_output.h"
#include "client/ctl/doctor/render_doctor.h"
#include "client/ctl/examination.h"
#include "client/ctl/output.h"
#include "client/ctl/terminal.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {
namespace {

ClusterFacts AskDaemon(const std::string& socket_path) {
  ClusterFacts cluster;
  Failure failure = FetchStatus(socket_path, cluster.status);
  if (failure.ok()) failure = FetchCheckups(socket_path, cluster.checkups);
  if (failure.ok()) failure = FetchTopology(socket_path, cluster.topology);
  cluster.daemon_answers = failure.ok();
  cluster.why_not = failure.message;
  return cluster;
}

// Says what it would do, or does it and says what came of it. False: something failed.
bool Mend(const std::vector<Finding>& findings, bool yes) {
  bool well = true;
  for (const Finding& finding : findings) {
    if (finding.fix.command.empty()) continue;
    const std::string line = finding.code + "  " + CommandLine(finding.fix.command);
    if (!finding.fix.safe) {
      WriteOut(line + "\n  not done by doctor: do it yourself if it fits\n", "findings");
      continue;
    }
    if (!yes) {
      WriteOut(line + "\n  would be done: mlxcommctl doctor --fix --yes\n", "findings");
      continue;
    }
    ProgramOptions options;
    options.with_errors = true;
    const auto output = RunProgram(finding.fix.command, options);
    const bool done = output.ok() && output->exit_code == 0;
    well = well && done;
    std::string result = done ? "done" : "failed: ";
    if (!done) result += output.ok() ? output->text : std::string(output.status().message());
    while (result.ends_with('\n')) result.pop_back();
    WriteOut(line + "\n  " + result + "\n", "findings");
  }
  return well;
}

}  // namespace

std::vector<Finding> Examine(const std::string& socket_path, const std::string& config_file) {
  Facts facts;
  facts.own_version = MLXCOMM_VERSION;
  facts.cluster = AskDaemon(socket_path);
  CollectOptions options;
  options.config_file = config_file;
  if (options.config_file.empty()) options.config_file = OwnCheckup(facts.cluster).config_file();
  options.key_file = OwnCheckup(facts.cluster).key_file();
  facts.system = CollectSystem(options);
  return Check(facts).Sorted();
}

int RunDoctor(const DoctorOptions& options) {
  if (options.codes) return WriteOut(RenderCodes(), "codes");
  std::vector<Finding> findings = Examine(options.socket_path, options.config_file);
  const std::string text = options.json ? FindingsAsJson(findings)
                                        : RenderFindings(findings, options.all, ColoursWanted());
  if (const int code = WriteOut(text, "findings"); code != 0) return code;
  if (options.fix) {
    if (!Mend(findings, options.yes)) return kExitFailed;
    if (options.yes) findings = Examine(options.socket_path, options.config_file);
  }
  const auto any = [&findings](Severity severity) {
    for (const Finding& finding : findings) {
      if (KindOf(finding.code)->severity == severity) return true;
    }
    return false;
  };
  if (any(Severity::kError)) return kExitFailed;
  return any(Severity::kWarning) ? kExitWarnings : 0;
}

}  // namespace mlxcomm::ctl

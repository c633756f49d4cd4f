// The verb firstlight: tries everything that this project assumes about Macs on this one, and
// writes what was seen into one file.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/doctor/diagnosis.h"
#include "client/ctl/firstlight/assumptions.h"
#include "client/ctl/firstlight/steps.h"

namespace mlxcomm::ctl {
namespace {

// Tries on this Mac what is assumed about Macs.
struct FirstLightOptions {
  std::string called;  // How this program was: argv[0].
  std::string socket_path;
  std::string config_file;
  std::string output;              // Empty: mlxcomm-firstlight-TIME.json here.
  std::vector<std::string> steps;  // Empty: all.
  std::vector<std::string> skip;
  std::string prompt_command;  // Empty: a person, if there is a terminal.
  std::uint64_t large_bytes = std::uint64_t{1} << 30;
  bool yes = false;    // Asks nothing.
  bool names = false;  // Names and addresses stay unchanged.
  bool json = false;
};

constexpr std::chrono::minutes kBudget{20};

constexpr Step kSteps[] = {
    {"system", "what this machine is, and what doctor finds", 90, StepSystem},
    {"platform", "what is assumed about the operating system", 120, StepPlatform},
    {"gpu", "operations through MLX, on its default device", 180, StepGpu},
    {"loopback", "two ranks on this machine", 120, StepLoopback},
    {"rdma", "what RDMA devices do, each trial in a process of its own", 240, StepRdma},
    {"neighbour", "who is at this machine's cables", 60, StepNeighbour},
    {"cable", "ranks on both machines", 120, StepCable},
    {"pull", "a cable is pulled, and plugged in again", 240, StepPull},
    {"sleep", "the machine sleeps, and wakes", 180, StepSleep},
    {"power", "whether a Mac can be kept awake", 30, StepPower},
};

// Names that would identify the machine or its user.
void KnowNames(Pseudonyms& names, const v1::StatusReply& status) {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0 && std::string(host) != "localhost") {
    const std::string whole = host;
    names.Know(whole.substr(0, whole.find('.')), "mac");
    names.KnowAs(whole, "mac-1");
  }
  const passwd* const user = ::getpwuid(::getuid());
  if (user != nullptr && std::string(user->pw_name) != "root") {
    names.KnowAs(user->pw_dir, "~");
    names.Know(user->pw_name, "user");
  }
  for (const v1::NodeStatus& node : status.nodes()) {
    names.Know(node.name(), "mac");
    for (const v1::LinkStatus& link : node.links()) {
      if (link.peer().find(':') == std::string::npos) names.Know(link.peer(), "mac");
    }
    for (const v1::DiscoveredNeighbour& one : node.discovery().neighbours()) {
      names.Know(one.name(), "mac");
    }
  }
  for (const v1::JobStatus& job : status.jobs()) names.Know(job.name(), "job");
  names.Know(status.cluster(), "cluster");
}

bool Has(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string StepNames() {
  std::vector<std::string> names;
  for (const Step& step : kSteps) names.emplace_back(step.name);
  return absl::StrJoin(names, ",");
}

void RunSteps(const FirstLightOptions& options, Lit& lit) {
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [&begin] {
    return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                          std::chrono::steady_clock::now() - begin)
                                          .count());
  };
  std::size_t number = 0;
  for (const Step& step : kSteps) {
    v1::FirstLightStep& note = *lit.notes.document.add_steps();
    note.set_name(step.name);
    note.set_began_ms(since());
    std::string why;
    Prompts::Tell(absl::StrCat("[", ++number, "/", std::size(kSteps), "] ", step.name, ": ",
                               step.what, "\n"));
    lit.deadline =
        std::min(begin + std::chrono::steady_clock::duration(kBudget),
                 std::chrono::steady_clock::now() + std::chrono::seconds(step.seconds_max));
    if ((!options.steps.empty() && !Has(options.steps, step.name)) ||
        Has(options.skip, step.name)) {
      why = "not asked for";
    } else if (since() >= static_cast<std::uint32_t>(std::chrono::milliseconds(kBudget).count())) {
      why = "the 20 minutes were over";
    } else {
      why = step.run(lit);
    }
    note.set_outcome(why.empty() ? "done" : "left out");
    if (!why.empty()) Prompts::Tell("    left out: " + why + "\n");
    note.set_why(std::move(why));
    note.set_took_ms(since() - note.began_ms());
  }
  lit.notes.document.set_took_ms(since());
}

}  // namespace

std::uint64_t UnixNowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::uint64_t Lit::left_ns() const {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        deadline - std::chrono::steady_clock::now())
                        .count();
  return static_cast<std::uint64_t>(std::max<long long>(left, 1'000'000));
}

std::uint64_t Lit::NowUs() const { return SinceBeginUs(UnixNowNs()); }

std::span<const Step> Steps() { return kSteps; }

namespace {

int RunFirstLight(const FirstLightOptions& options) {
  for (const std::vector<std::string>* names : {&options.steps, &options.skip}) {
    for (const std::string& name : *names) {
      if (absl::StrContains("," + StepNames() + ",", "," + name + ",")) continue;
      return Fail(kExitUsage, "there is no step \"" + name + "\"; expected some of " + StepNames());
    }
  }
  const std::string output =
      options.output.empty() ? "mlxcomm-firstlight-" + TimeForName() + ".json" : options.output;
  if (::access(output.c_str(), F_OK) == 0) {
    return Fail(kExitFailed, output + " is there already: name another file with -o");
  }
  const std::string own_path = OwnPath(options.called);
  AddOwnFolderToPath(own_path);
  std::string config_file = options.config_file;
  const std::vector<std::string> keys = FindKeys(options.socket_path, config_file);
  v1::StatusReply status;
  static_cast<void>(FetchStatus(options.socket_path, status));  // Without a daemon: fewer names.
  Pseudonyms names(!options.names);
  KnowNames(names, status);
  Notes notes;
  Prompts prompts(options.prompt_command, options.yes);
  Lit lit{own_path,    options.socket_path,
          config_file, options.large_bytes,
          UnixNowNs(), {},
          notes,       prompts,
          names};
  Prompts::Tell(
      "At most 20 minutes. Nothing is changed on this machine; a step can be left out.\n");
  RunSteps(options, lit);
  const std::string document = Document(notes, names, keys);
  if (!WriteNewFile(output, document)) {
    return Fail(kExitFailed, "cannot write " + output + ": " + std::strerror(errno));
  }
  if (options.json) return WriteOut(document, "document");
  return WriteOut(Summary(notes) + "\n" + output + "\n", "summary");
}

}  // namespace

Run AddFirstLight(CLI::App& verb, const Invocation& invocation) {
  const auto made = std::make_shared<FirstLightOptions>();
  FirstLightOptions& options = *made;
  options.called = invocation.called;
  AddSocket(verb, options.socket_path);
  AddConfig(verb, options.config_file);
  verb.add_option("-o,--output", options.output, "File to write (mlxcomm-firstlight-TIME.json)")
      ->type_name("FILE");
  verb.add_option("--steps", options.steps, "Run only these steps, as A,B")
      ->delimiter(',')
      ->type_name("{" + StepNames() + "}");
  verb.add_option("--skip", options.skip, "Skip these steps, as A,B")
      ->delimiter(',')
      ->type_name("{" + StepNames() + "}");
  verb.add_flag("--yes", options.yes, "Ask nothing, and leave out what needs hands");
  verb.add_option("--prompt-command", options.prompt_command,
                  "Run this for what a person would be asked: pull, plug or sleep")
      ->type_name("COMMAND");
  AddQuantity(verb, "--large", options.large_bytes, ParseBytes, "64M or 1.5G",
              "Size of the largest operation (1G)");
  verb.add_flag("--names", options.names, "Keep names and addresses in the report");
  verb.add_flag("--json", options.json, "For programs: print the report, too");
  verb.footer(
      R"(It takes 20 minutes at most, changes nothing on the machine, and asks for hands if it
needs them: to pull a cable and plug it in, to send the machine to sleep. For the steps
neighbour and cable run it on both Macs at the same time. The file says what is in it;
keys, names and addresses are not.)");
  return [made] { return RunFirstLight(*made); };
}

}  // namespace mlxcomm::ctl

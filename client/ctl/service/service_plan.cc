#include "client/ctl/service/service_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/service/service_files.h"

namespace mlxcomm::ctl {
namespace {

using Kind = ServiceStep::Kind;

constexpr std::uint32_t kFileMode = 0644;
constexpr std::uint32_t kProgramMode = 0755;
constexpr int kCommandS = 60;
// launchd waits until ten seconds after it last started the program.
constexpr int kStartS = 30;

bool IsSystemd(const ServiceFacts& facts) { return facts.manager == ServiceManager::kSystemd; }
std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Adds steps; paths are below the facts' root.
class Steps {
 public:
  Steps(const ServiceFacts& facts, ServicePlan& plan) : facts_(facts), plan_(plan) {}

  std::string At(const std::string& path) const { return facts_.root + path; }
  bool IsThere(const std::string& path) const { return facts_.there.contains(path); }
  bool only_files() const { return facts_.only_files; }

  void Folder(const std::string& path) {
    Add({.kind = Kind::kFolder, .path = At(path), .mode = kProgramMode});
  }
  void Write(const std::string& path, std::string text) {
    Add({.kind = Kind::kWrite, .path = At(path), .text = std::move(text), .mode = kFileMode});
  }
  void Copy(const std::string& from, const std::string& path) {
    Add({.kind = Kind::kCopy, .path = At(path), .from = from, .mode = kProgramMode});
  }
  void Move(const std::string& from, const std::string& path) {
    Add({.kind = Kind::kMove, .path = At(path), .from = At(from)});
  }
  void Remove(const std::string& path) { Add({.kind = Kind::kRemove, .path = At(path)}); }
  void RemoveIfThere(const std::string& path) {
    if (IsThere(path)) Remove(path);
  }
  void Run(std::vector<std::string> words, bool may_fail = false, int patience_s = kCommandS) {
    Add({.words = std::move(words), .may_fail = may_fail, .patience_s = patience_s});
  }
  void Add(ServiceStep step) { plan_.steps.push_back(std::move(step)); }

 private:
  const ServiceFacts& facts_;
  ServicePlan& plan_;
};

// On macOS programs load Homebrew's libraries from folders that users may write to, and `brew
// upgrade` removes old versions. So the service gets copies of programs and libraries, with changed
// library names and new signatures.
class MacosCopies {
 public:
  MacosCopies(const ServiceFacts& facts, ServicePlan& plan, Steps& steps)
      : facts_(facts), plan_(plan), steps_(steps) {}

  // `beside`: the prefix of its libraries' new names.
  void Copy(const std::string& from, const std::string& path, const std::string& beside) {
    steps_.Copy(from, path);
    const auto loads = facts_.loads.find(from);
    if (loads != facts_.loads.end()) {
      for (const LoadedLibrary& library : loads->second) Rename(from, path, beside, library);
    }
    steps_.Run({"codesign", "--force", "--sign", "-", steps_.At(path)});
  }

 private:
  void Rename(const std::string& from, const std::string& path, const std::string& beside,
              const LoadedLibrary& library) {
    const std::string name = BaseName(library.named);
    if (name == BaseName(from)) {  // The library's own name.
      steps_.Run({"install_name_tool", "-id", absl::StrCat(kServiceLibraries, "/", name),
                  steps_.At(path)});
      return;
    }
    if (library.file.empty()) {
      plan_.problems.push_back(
          absl::StrCat(from, " loads ", library.named,
                       ", which is missing: rebuild mlxcomm, then run this again"));
      return;
    }
    if (placed_.insert(name).second) {
      Copy(library.file, absl::StrCat(kServiceLibraries, ".new/", name), "@loader_path/");
    }
    steps_.Run({"install_name_tool", "-change", library.named, beside + name, steps_.At(path)});
  }

  const ServiceFacts& facts_;
  ServicePlan& plan_;
  Steps& steps_;
  std::set<std::string> placed_;
};

using Programs = std::vector<std::pair<std::string, std::string>>;  // Source and name.

Programs ProgramsOf(const ServiceFacts& facts) {
  if (facts.in_place) return {};
  Programs programs{{facts.program, "mlxcommd"}};
  if (!facts.control.empty()) programs.emplace_back(facts.control, "mlxcommctl");
  return programs;
}

std::string Beside(const std::string& name, const char* ending) {
  return absl::StrCat(kServiceFolder, "/.", name, ending);
}

void PutBack(const std::string& path, const std::string& old, const Steps& steps,
             ServicePlan& plan) {
  plan.restore.push_back({.kind = Kind::kPutBack, .path = steps.At(path), .from = steps.At(old)});
}

// Runs each copy once, with its final libraries, before it replaces the old program.
void AddTrials(const Programs& programs, Steps& steps) {
  if (steps.only_files()) return;
  for (const auto& [from, name] : programs) {
    steps.Add({.words = {steps.At(Beside(name, ".new")), "--version"},
               .remedy = absl::StrCat("the copy of ", from, " does not run: rebuild mlxcomm"),
               .patience_s = kCommandS});
  }
}

// Stages programs and libraries beside the old ones, then moves them into place; the old ones are
// kept until the new daemon answers.
void AddPrograms(const ServiceFacts& facts, ServicePlan& plan, Steps& steps) {
  const Programs programs = ProgramsOf(facts);
  if (programs.empty()) return;
  const std::string libraries = kServiceLibraries;
  const bool has_libraries = !IsSystemd(facts);
  MacosCopies copies(facts, plan, steps);
  if (has_libraries) {
    steps.Folder("/usr/local/lib");
    steps.Folder(libraries + ".new");
    plan.staged.push_back(steps.At(libraries + ".new"));
  }
  for (const auto& [from, name] : programs) {
    const std::string staged = Beside(name, ".new");
    plan.staged.push_back(steps.At(staged));
    if (has_libraries) {
      copies.Copy(from, staged, "@loader_path/../lib/mlxcomm/");
    } else {
      steps.Copy(from, staged);
    }
  }
  if (has_libraries) {
    if (steps.IsThere(libraries)) {
      steps.Move(libraries, libraries + ".old");
      PutBack(libraries, libraries + ".old", steps, plan);
    }
    steps.Move(libraries + ".new", libraries);
  }
  AddTrials(programs, steps);
  for (const auto& [from, name] : programs) {
    const std::string path = absl::StrCat(kServiceFolder, "/", name);
    if (steps.IsThere(path)) {  // Copied, so that the program always exists.
      steps.Copy(steps.At(path), Beside(name, ".old"));
      PutBack(path, Beside(name, ".old"), steps, plan);
    }
    steps.Move(Beside(name, ".new"), path);
  }
}

// Files of an interrupted install. They are removed first, so that a rollback cannot restore them.
std::vector<std::string> Leftovers(ServiceManager manager) {
  std::vector<std::string> all;
  for (const char* const ending : {".new", ".old"}) {
    for (const char* const name : {"mlxcommd", "mlxcommctl"}) all.push_back(Beside(name, ending));
    if (manager == ServiceManager::kLaunchd) all.push_back(std::string(kServiceLibraries) + ending);
  }
  return all;
}

// newsyslog keeps five.
std::vector<std::string> RotatedLogs() {
  constexpr int kRotatedMax = 5;
  std::vector<std::string> all;
  for (int number = 0; number <= kRotatedMax; ++number)
    all.push_back(absl::StrCat(kLaunchdLog, ".", number));
  return all;
}

void RemoveOld(const ServiceFacts& facts, Steps& steps) {
  const Programs programs = ProgramsOf(facts);
  for (const auto& [from, name] : programs) {
    if (steps.IsThere(absl::StrCat(kServiceFolder, "/", name))) steps.Remove(Beside(name, ".old"));
  }
  if (!programs.empty() && !IsSystemd(facts)) steps.Remove(std::string(kServiceLibraries) + ".old");
}

// launchd refuses to load a service twice.
void AddBootout(const ServiceFacts& facts, Steps& steps, int ends_within_s) {
  if (!facts.is_loaded) return;
  // Fails with 36 while the daemon drains; the wait decides.
  steps.Run({"launchctl", "bootout", kLaunchdService}, /*may_fail=*/true,
            ends_within_s + kCommandS);
  steps.Add({.kind = Kind::kAwaitEnd,
             .words = {"launchctl", "print", kLaunchdService},
             .patience_s = ends_within_s + 5});
}

std::string ConfigOf(const ServiceFacts& facts) {
  return facts.config.has_value() ? *facts.config
                                  : FirstConfig(facts.manager, facts.default_config);
}

void AddEnd(const ServiceFacts& facts, Steps& steps) {
  const int ends_within_s = EndsWithinS(ConfigOf(facts));
  if (!IsSystemd(facts)) return AddBootout(facts, steps, ends_within_s);
  if (facts.is_installed) {
    steps.Run({"systemctl", "disable", "--now", kSystemdUnit}, false, ends_within_s + kCommandS);
    return;
  }
  // Without its file, a unit can only be stopped.
  steps.Run({"systemctl", "disable", kSystemdUnit}, /*may_fail=*/true);
  steps.Run({"systemctl", "stop", kSystemdUnit}, false, ends_within_s + kCommandS);
}

// Returns whether the running daemon will exec the new program itself when no job is left.
bool HandsOver(const ServiceFacts& facts, const ServiceWishes& wishes) {
  return facts.is_running && facts.start != 0 && !wishes.force;
}

void AddSignal(const ServiceFacts& facts, const std::string& signal, Steps& steps) {
  if (IsSystemd(facts)) {
    // Not its child processes, which do not handle it.
    steps.Run({"systemctl", "kill", "--kill-who=main", "--signal=" + signal, kSystemdUnit});
  } else {
    steps.Run({"launchctl", "kill", signal, kLaunchdService});
  }
}

void AddTakeOver(const ServiceFacts& facts, const ServiceWishes& wishes, Steps& steps) {
  if (IsSystemd(facts)) steps.Run({"systemctl", "daemon-reload"});
  AddSignal(facts, "SIGUSR2", steps);
  if (wishes.no_wait) return;
  steps.Add({.kind = Kind::kAwaitNext,
             .path = facts.socket,
             .start = facts.start,
             .asked = facts.restarts_asked});
}

void AddStart(const ServiceFacts& facts, const ServiceWishes& wishes, Steps& steps) {
  if (HandsOver(facts, wishes)) return AddTakeOver(facts, wishes, steps);
  const int ends_within_s = EndsWithinS(ConfigOf(facts));
  if (IsSystemd(facts)) {
    steps.Run({"systemctl", "daemon-reload"});
    if (!facts.is_packaged) steps.Run({"systemctl", "enable", kSystemdUnit});
    steps.Run({"systemctl", "restart", kSystemdUnit}, false, ends_within_s + kCommandS);
  } else {
    AddBootout(facts, steps, ends_within_s);
    steps.Run({"launchctl", "enable", kLaunchdService});  // A disabled service would not load.
    steps.Add({.words = {"launchctl", "bootstrap", "system", DefinitionPath(facts.manager)},
               .remedy = absl::StrCat(
                   "launchd did not load the service: see launchctl print ", kLaunchdService,
                   " and mlxcommctl service logs; then run mlxcommctl service restart"),
               .patience_s = kCommandS});
  }
  steps.Add({.kind = Kind::kAwaitSocket, .path = facts.socket, .patience_s = kStartS});
}

// Writes the unit or plist, with the configuration's timeout.
void AddDefinition(const ServiceFacts& facts, Steps& steps) {
  const std::string path = DefinitionPath(facts.manager);
  steps.Folder(path.substr(0, path.rfind('/')));
  const bool keeps_programs =
      facts.in_place && (!facts.is_installed || SaysKeepsPrograms(facts.definition));
  steps.Write(path, DefinitionText(facts.manager, EndsWithinS(ConfigOf(facts)), keeps_programs));
  if (!IsSystemd(facts) || !steps.IsThere(kTimeoutFile)) return;
  steps.Remove(kTimeoutFile);  // It would override the unit.
  steps.Add({.kind = Kind::kRemoveIfEmpty, .path = steps.At(kTimeoutFolder)});
}

// Changes only the timeout in a unit of an administrator or a package.
void AddTimeout(const ServiceFacts& facts, Steps& steps) {
  const int ends_within_s = EndsWithinS(ConfigOf(facts));
  if (IsSystemd(facts)) {
    steps.Folder(kTimeoutFolder);
    steps.Write(kTimeoutFile, TimeoutText(ends_within_s));
    return;
  }
  const std::string text = WithExitTimeout(facts.definition, ends_within_s);
  if (text != facts.definition) steps.Write(DefinitionPath(facts.manager), text);
}

// If a step of an install fails, the unit or plist is restored, too.
void AddRestore(const ServiceFacts& facts, const ServiceWishes& wishes, const Steps& steps,
                ServicePlan& plan) {
  if (!facts.definition.empty()) {
    plan.restore.push_back({.kind = Kind::kWrite,
                            .path = steps.At(DefinitionPath(facts.manager)),
                            .text = facts.definition,
                            .mode = kFileMode});
  }
  if (steps.only_files() || plan.restore.empty()) return;
  if (IsSystemd(facts)) {
    plan.restore.push_back({.words = {"systemctl", "daemon-reload"}, .patience_s = kCommandS});
  }
  // A daemon that would hand over is still running.
  if (!facts.is_running || HandsOver(facts, wishes)) return;
  ServicePlan again;
  Steps start(facts, again);
  ServiceFacts loaded = facts;
  loaded.is_loaded = true;
  AddStart(loaded, wishes, start);
  plan.start_again = std::move(again.steps);
}

void CheckJobs(const ServiceFacts& facts, const ServiceWishes& wishes, ServicePlan& plan) {
  if (wishes.force || !facts.is_running) return;
  if (!facts.jobs.has_value()) {
    plan.problems.push_back(
        absl::StrCat("cannot ask mlxcommd for running jobs, which would end with it (",
                     facts.jobs_trouble, "): try again, or use --force"));
  } else if (*facts.jobs > 0) {
    plan.problems.push_back(absl::StrCat(
        Plural(static_cast<std::uint64_t>(*facts.jobs), "job"), *facts.jobs == 1 ? " runs" : " run",
        " on this node (see mlxcommctl status), and would end with the daemon after "
        "drain_timeout_ms: wait for ",
        *facts.jobs == 1 ? "it" : "them", ", or use --force"));
  }
}

// Checks what every change needs, unless only files are written. `verb` is for messages.
void CheckMachine(const ServiceFacts& facts, const ServiceWishes& wishes, const char* verb,
                  ServicePlan& plan) {
  if (facts.only_files) return;
  if (!facts.is_superuser && !wishes.dry_run) {
    plan.problems.push_back(
        absl::StrCat("only root can do this: sudo \"$(command -v mlxcommctl)\" service ", verb));
  }
  if (!IsSystemd(facts) && !facts.has_manager) {
    plan.problems.emplace_back("launchctl is not in the PATH: expected it at /bin/launchctl");
  }
  if (!IsSystemd(facts) || (facts.has_manager && facts.was_booted)) return;
  const std::string why =
      facts.has_manager ? "systemd is not running here" : "systemctl is not installed here";
  const std::string_view called = verb;
  plan.problems.push_back(
      called == "install"
          ? absl::StrCat(
                why,
                ", so mlxcommd cannot become a service: run mlxcommd --config FILE from your "
                "own init system, or write only the files with --root DIR")
      : called == "uninstall"
          ? absl::StrCat(why,
                         ", so the service cannot be stopped: stop mlxcommd yourself, and remove "
                         "only the files with --root /")
          : absl::StrCat(why,
                         ", so there is no service to restart: restart mlxcommd with your own "
                         "init system"));
}

void CheckConfig(const ServiceFacts& facts, ServicePlan& plan) {
  if (facts.config_is_hidden) {
    plan.problems.push_back(absl::StrCat(kServiceConfig, ": ", kHiddenConfig));
  }
  if (facts.config_trouble.empty()) return;
  plan.problems.push_back(
      absl::StrCat(facts.config_trouble, "\n", kServiceConfig, ": fix it, then run this again"));
}

void CheckProgram(const ServiceFacts& facts, ServicePlan& plan) {
  if (facts.program.empty()) {
    plan.problems.emplace_back("no mlxcommd beside this mlxcommctl: name it with --program FILE");
  } else if (facts.program_version.empty()) {
    plan.problems.push_back(absl::StrCat(facts.program, " is not mlxcommd (--version fails)"));
  } else if (!facts.config.has_value() && facts.default_config.empty()) {
    plan.problems.push_back(absl::StrCat(
        facts.program, " --print-config failed, so the default configuration is unknown: write ",
        kServiceConfig, " first"));
  }
}

constexpr char kPackaged[] = "the service belongs to the system's package mlxcomm";

ServicePlan PlanCancel(const ServiceFacts& facts, const ServiceWishes& wishes) {
  ServicePlan plan;
  Steps steps(facts, plan);
  CheckMachine(facts, wishes, "restart", plan);
  if (!facts.restart_stands) {
    plan.problems.push_back(facts.socket_answers
                                ? "no restart is pending or was refused (see mlxcommctl status)"
                                : absl::StrCat("mlxcommd does not answer at ", facts.socket,
                                               ": no restart can be pending"));
  }
  AddSignal(facts, "SIGUSR1", steps);
  steps.Add({.kind = Kind::kAwaitStay,
             .path = facts.socket,
             .patience_s = kStartS,
             .start = facts.start});
  return plan;
}

}  // namespace

ServicePlan PlanInstall(const ServiceFacts& facts, const ServiceWishes& wishes) {
  ServicePlan plan;
  Steps steps(facts, plan);
  CheckMachine(facts, wishes, "install", plan);
  CheckProgram(facts, plan);
  CheckConfig(facts, plan);
  if (!HandsOver(facts, wishes)) CheckJobs(facts, wishes, plan);
  for (const std::string& trouble : facts.trouble_with_folders) {
    plan.problems.push_back(absl::StrCat(trouble, ": expected a writable folder"));
  }
  for (const std::string& folder : facts.folders_of_others) {
    plan.warnings.push_back(absl::StrCat(
        folder, " is writable by other users, who could replace what root runs: sudo chown root ",
        folder, "; sudo chmod go-w ", folder));
  }
  for (const std::string& trouble : facts.trouble_with_loads) {
    plan.problems.push_back(absl::StrCat(
        trouble,
        "\notool must list the libraries to install: install it with xcode-select --install"));
  }
  if (facts.is_packaged) {
    plan.problems.push_back(absl::StrCat(kPackaged, ": start it with systemctl enable --now ",
                                         kSystemdUnit,
                                         ", or remove the package first (apt-get remove mlxcomm)"));
  }
  if (facts.socket_answers && !facts.is_running && !steps.only_files()) {
    plan.problems.push_back(absl::StrCat("another mlxcommd, not the service, answers at ",
                                         facts.socket, ": stop it first"));
  }
  for (const std::string& path : Leftovers(facts.manager)) steps.RemoveIfThere(path);
  steps.Folder(kServiceFolder);
  steps.Folder(kServiceConfigFolder);
  AddPrograms(facts, plan, steps);
  if (!facts.config.has_value())
    steps.Write(kServiceConfig, FirstConfig(facts.manager, facts.default_config));
  AddDefinition(facts, steps);
  if (!IsSystemd(facts)) steps.Folder(kServiceLogs);  // systemd makes it (LogsDirectory).
  const std::string rotation = RotationPath(facts.manager);
  steps.Folder(rotation.substr(0, rotation.rfind('/')));
  steps.Write(rotation, std::string(RotationText(facts.manager)));
  plan.ends_at = plan.steps.size();
  AddRestore(facts, wishes, steps, plan);
  if (!steps.only_files()) AddStart(facts, wishes, steps);
  RemoveOld(facts, steps);
  return plan;
}

ServicePlan PlanUninstall(const ServiceFacts& facts, const ServiceWishes& wishes) {
  ServicePlan plan;
  Steps steps(facts, plan);
  CheckMachine(facts, wishes, wishes.purge ? "uninstall --purge" : "uninstall", plan);
  CheckJobs(facts, wishes, plan);
  if (facts.is_packaged) {
    plan.problems.push_back(
        absl::StrCat(kPackaged, ": apt-get ", wishes.purge ? "purge" : "remove", " mlxcomm"));
  }
  const std::string definition = DefinitionPath(facts.manager);
  if (facts.is_installed || facts.is_running || facts.is_loaded) {
    if (!steps.only_files()) AddEnd(facts, steps);
    if (!SaysKeepsPrograms(facts.definition)) {
      for (const char* const path : {kServiceProgram, kServiceControl}) steps.RemoveIfThere(path);
    }
    if (!IsSystemd(facts)) steps.RemoveIfThere(kServiceLibraries);
    steps.RemoveIfThere(RotationPath(facts.manager));
    if (steps.IsThere(kTimeoutFile)) {
      steps.Remove(kTimeoutFile);
      steps.Add({.kind = Kind::kRemoveIfEmpty, .path = steps.At(kTimeoutFolder)});
    }
    steps.RemoveIfThere(
        definition);  // Last, so that a half removed service still counts as installed.
    if (!steps.only_files() && IsSystemd(facts)) {
      steps.Run({"systemctl", "daemon-reload"});
      steps.Run({"systemctl", "reset-failed", kSystemdUnit}, /*may_fail=*/true);
    }
  }
  for (const std::string& path : Leftovers(facts.manager)) steps.RemoveIfThere(path);
  if (wishes.purge) {
    for (const std::string& path : RotatedLogs()) steps.RemoveIfThere(path);
  }
  for (const char* const path :
       {kServiceConfig, kServiceKey, kServiceState, kServiceLogs, kLaunchdLog}) {
    if (!steps.IsThere(path)) continue;
    if (wishes.purge) {
      steps.Remove(path);
    } else {
      plan.kept.push_back(steps.At(path));
    }
  }
  if (wishes.purge && steps.IsThere(kServiceConfigFolder)) {
    steps.Add({.kind = Kind::kRemoveIfEmpty, .path = steps.At(kServiceConfigFolder)});
  }
  return plan;
}

ServicePlan PlanRestart(const ServiceFacts& facts, const ServiceWishes& wishes) {
  if (wishes.cancel) return PlanCancel(facts, wishes);
  ServicePlan plan;
  Steps steps(facts, plan);
  CheckMachine(facts, wishes, "restart", plan);
  if (!facts.is_installed && !facts.is_packaged) {
    plan.problems.emplace_back(
        "mlxcommd is not installed as a service: sudo \"$(command -v mlxcommctl)\" service "
        "install");
  }
  CheckConfig(facts, plan);
  if (!HandsOver(facts, wishes)) CheckJobs(facts, wishes, plan);
  AddTimeout(facts, steps);
  AddStart(facts, wishes, steps);
  return plan;
}

std::vector<std::string> LogsCommand(const ServiceFacts& facts, int lines, bool follow,
                                     std::string& why_not) {
  if (facts.config_is_hidden) {
    why_not = absl::StrCat(kServiceConfig, " names the log: ", kHiddenConfig);
    return {};
  }
  const std::string file = SettingIn(facts.config.value_or(""), "file");
  if (file.empty() && IsSystemd(facts)) {
    if (!facts.was_booted) {
      why_not =
          "no log: systemd, and so its journal, is not running here, and the configuration names "
          "no file";
      return {};
    }
    std::vector<std::string> words{"journalctl", "-u", kSystemdUnit, "-n", absl::StrCat(lines)};
    words.emplace_back(follow ? "-f" : "--no-pager");
    return words;
  }
  const std::string path = file.empty() ? kLaunchdLog : file;
  std::vector<std::string> words{"tail", "-n", absl::StrCat(lines)};
  if (follow) words.emplace_back("-F");  // Follows rotation.
  words.push_back(path);
  // Errors from before the daemon opened its own log, such as an invalid configuration.
  if (!IsSystemd(facts) && path != kLaunchdLog && facts.there.contains(kLaunchdLog))
    words.emplace_back(kLaunchdLog);
  return words;
}

std::vector<std::string> RemovablePaths(ServiceManager manager) {
  std::vector<std::string> all{kServiceProgram,       kServiceControl,         kServiceLibraries,
                               RotationPath(manager), DefinitionPath(manager), kServiceConfig,
                               kServiceKey,           kServiceState,           kServiceLogs,
                               kLaunchdLog,           kServiceConfigFolder,    kTimeoutFile};
  for (const auto& more : {Leftovers(manager), RotatedLogs()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::string> WrittenFolders(ServiceManager manager) {
  std::vector<std::string> all{kServiceFolder, kServiceConfigFolder};
  for (const std::string path : {DefinitionPath(manager), RotationPath(manager)}) {
    all.push_back(path.substr(0, path.rfind('/')));
  }
  if (manager == ServiceManager::kLaunchd) {
    all.emplace_back("/usr/local/lib");
    all.emplace_back("/var/log");
  }
  return all;
}

std::string DescribeStep(const ServiceStep& step) {
  switch (step.kind) {
    case Kind::kFolder: return absl::StrCat("create the folder ", step.path, " if it is missing");
    case Kind::kWrite: return absl::StrCat("write ", step.path);
    case Kind::kCopy: return absl::StrCat("copy ", step.from, " to ", step.path);
    case Kind::kMove: return absl::StrCat("move ", step.from, " to ", step.path);
    case Kind::kPutBack: return absl::StrCat("restore ", step.path, " from ", step.from);
    case Kind::kRemove: return absl::StrCat("remove ", step.path);
    case Kind::kRemoveIfEmpty: return absl::StrCat("remove ", step.path, " if it is empty");
    case Kind::kRun: return absl::StrCat("run ", absl::StrJoin(step.words, " "));
    case Kind::kAwaitEnd:
      return absl::StrCat("wait until ", absl::StrJoin(step.words, " "), " fails");
    case Kind::kAwaitSocket: return absl::StrCat("wait until mlxcommd answers at ", step.path);
    case Kind::kAwaitNext:
      return "wait until mlxcommd has no clients and has become the new program";
    case Kind::kAwaitStay: return "wait until mlxcommd confirms that it does not restart";
  }
  return {};
}

std::string RenderPlan(const ServicePlan& plan) {
  std::string text;
  for (const ServiceStep& step : plan.steps) absl::StrAppend(&text, "  ", DescribeStep(step), "\n");
  return text;
}

std::string RenderKept(const ServicePlan& plan) {
  if (plan.kept.empty()) return {};
  return absl::StrCat("Kept: ", absl::StrJoin(plan.kept, ", "), ". --purge removes these, too.\n");
}

}  // namespace mlxcomm::ctl

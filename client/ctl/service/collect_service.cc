#include "client/ctl/service/collect_service.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/service/macos_programs.h"
#include "client/ctl/service/service_files.h"
#include "client/ctl/service/service_plan.h"
#include "client/ctl/status/health.h"
#include "proto/queue/dial.h"
#include "proto/system/program.h"
#include "proto/system/small_file.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kConfigBytesMax = 1024 * 1024;

bool Exists(const std::string& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0;
}

bool IsFile(const std::string& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

bool IsProgram(const std::string& path) {
  return IsFile(path) && ::access(path.c_str(), X_OK) == 0;
}

bool Succeeds(const std::vector<std::string>& words) {
  const absl::StatusOr<ProgramOutput> output = RunProgram(words);
  return output.ok() && output->exit_code == 0;
}

// Runs uname as a script would, so that tests can replace it.
ServiceManager ManagerHere() {
  const absl::StatusOr<ProgramOutput> system = RunProgram(OfMacos({"uname", "-s"}));
  const bool is_macos = system.ok() && absl::StripAsciiWhitespace(system->text) == "Darwin";
  return is_macos ? ServiceManager::kLaunchd : ServiceManager::kSystemd;
}

void QueryManager(ServiceFacts& facts) {
  if (facts.manager == ServiceManager::kLaunchd) {
    const auto known = RunProgram(OfMacos({"launchctl", "print", kLaunchdService}));
    const auto disabled = RunProgram(OfMacos({"launchctl", "print-disabled", "system"}));
    facts.has_manager = known.ok();
    facts.was_booted = true;
    facts.is_loaded = known.ok() && known->exit_code == 0;
    facts.is_running = facts.is_loaded && RunsByLaunchd(known->text);
    facts.is_enabled =
        facts.is_installed && disabled.ok() && !IsDisabledByLaunchd(disabled->text, kLaunchdLabel);
    return;
  }
  facts.has_manager = RunProgram({"systemctl", "--version"}).ok();
  facts.was_booted = Exists("/run/systemd/system");
  if (!facts.has_manager || !facts.was_booted) return;
  facts.is_running = Succeeds({"systemctl", "is-active", "--quiet", kSystemdUnit});
  facts.is_enabled = Succeeds({"systemctl", "is-enabled", "--quiet", kSystemdUnit});
  if (facts.is_installed) return;
  for (const char* const unit : kPackagedUnits) {
    facts.is_packaged = facts.is_packaged || Exists(unit);
  }
}

void QueryProgram(const ServicePlaces& places, ServiceFacts& facts) {
  facts.program = !places.program.empty()
                      ? places.program
                      : FindProgramBeside(places.own_path, "mlxcommd", "../daemon");
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(facts.program, error);
  if (!error) facts.program = resolved.string();
  if (!IsProgram(facts.program)) return;
  if (const auto output = RunProgram({facts.program, "--version"});
      output.ok() && output->exit_code == 0) {
    facts.program_version = std::string(absl::StripAsciiWhitespace(output->text));
  }
  if (places.to_install) {
    const auto printed = RunProgram({facts.program, "--print-config"});
    if (printed.ok() && printed->exit_code == 0) facts.default_config = printed->text;
  }
  facts.in_place = std::filesystem::equivalent(facts.program, facts.root + kServiceProgram, error);
  if (IsProgram(places.own_path)) facts.control = places.own_path;
}

void CheckConfig(ServiceFacts& facts) {
  const std::string path = facts.root + kServiceConfig;
  facts.config_is_hidden = ::access(path.c_str(), R_OK) != 0 && errno == EACCES;
  if (facts.config_is_hidden || !Exists(path)) return;
  facts.config = ReadFileText(path, kConfigBytesMax);
  // Below another root, the paths in the configuration do not refer to that root.
  if (facts.only_files || facts.program_version.empty()) return;
  const auto trouble = FindConfigTrouble(facts.program, path);
  facts.config_trouble = trouble.ok() ? *trouble : std::string(trouble.status().message());
}

// Returns otool's output; if it fails, adds why to trouble_with_loads.
std::optional<std::string> RunOtool(const char* what, const std::string& file,
                                    ServiceFacts& facts) {
  const auto output = RunProgram(OfMacos({"otool", what, file}), {.with_errors = true});
  if (output.ok() && output->exit_code == 0) return output->text;
  const std::string why = output.ok() ? absl::StrCat("ended ", HowEnded(output->exit_code), ": ",
                                                     absl::StripAsciiWhitespace(output->text))
                                      : std::string(output.status().message());
  facts.trouble_with_loads.push_back(absl::StrCat("otool ", what, " ", file, ": ", why));
  return std::nullopt;
}

void FindLibraries(const std::string& file, ServiceFacts& facts) {
  if (facts.loads.contains(file)) return;
  std::vector<LoadedLibrary>& loads = facts.loads[file];
  const std::optional<std::string> named = RunOtool("-L", file, facts);
  if (!named.has_value()) return;
  const std::optional<std::string> commands = RunOtool("-l", file, facts);
  if (!commands.has_value()) return;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(file, error);
  const std::string folder = FolderOf(error ? file : real.string());
  const std::vector<std::string> run_paths = RunPathsIn(*commands);
  for (const std::string& library : LibrariesIn(*named)) {
    loads.push_back({library, FileNamed(library, folder, run_paths, IsFile)});
  }
  for (const LoadedLibrary& library : std::vector<LoadedLibrary>(loads)) {
    if (!library.file.empty()) FindLibraries(library.file, facts);
  }
}

// Checks the folders to write to, or the nearest existing parent.
void CheckFolders(ServiceFacts& facts) {
  for (const std::string& wanted : WrittenFolders(facts.manager)) {
    std::filesystem::path path = facts.root + wanted;
    // parent_path() of "/" is itself, of the last part of a relative path empty.
    while (!Exists(path.string()) && path.has_relative_path()) path = path.parent_path();
    const std::string folder = path.empty() ? "." : path.string();
    struct stat found{};
    const bool is_folder = ::stat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
    if (!is_folder) {
      facts.trouble_with_folders.push_back(folder + ": is not a folder");
    } else if (::access(folder.c_str(), W_OK) != 0 &&
               (errno != EACCES || facts.only_files)) {  // Root may write there.
      facts.trouble_with_folders.push_back(absl::StrCat(folder, ": ", std::strerror(errno)));
    }
    for (; !facts.only_files && path.has_relative_path(); path = path.parent_path()) {
      if (OthersMayWrite(path.string())) facts.folders_of_others.insert(path.string());
    }
  }
}

int JobsOf(const v1::StatusReply& reply) {
  return static_cast<int>(std::ranges::count_if(reply.jobs(), [&reply](const v1::JobStatus& job) {
    return std::ranges::any_of(
        job.ranks(), [&reply](const v1::RankStatus& rank) { return rank.node() == reply.node(); });
  }));
}

// Calls the daemon rather than only connecting: it logs processes that connect and do nothing.
void QueryDaemon(ServiceFacts& facts) {
  v1::StatusReply reply;
  const Failure failure = FetchStatus(facts.socket, reply);
  facts.socket_answers = failure.code != FailureCode::kUnavailable;
  if (!facts.socket_answers) return;  // No daemon, no jobs.
  if (!failure.ok()) {
    facts.jobs.reset();
    facts.jobs_trouble = failure.message;
    return;
  }
  facts.jobs = JobsOf(reply);
  const v1::NodeStatus& own = OwnNode(reply);
  facts.start = own.start();
  facts.restarts_asked = own.restart().asked();
  facts.restart_stands = own.has_restart() && !own.restart().taken_back();
}

}  // namespace

bool AnswersAt(const std::string& socket_path) {
  v1::StatusReply reply;
  return FetchStatus(socket_path, reply).code != FailureCode::kUnavailable;
}

std::optional<v1::NodeStatus> FetchNode(const std::string& socket_path) {
  v1::StatusReply reply;
  if (!FetchStatus(socket_path, reply).ok()) return std::nullopt;
  const v1::NodeStatus& own = OwnNode(reply);
  return own.name().empty() ? std::nullopt : std::optional(own);
}

ServiceFacts CollectService(const ServicePlaces& places) {
  ServiceFacts facts;
  facts.manager = ManagerHere();
  facts.only_files = places.only_files;
  facts.root = places.root;
  facts.is_superuser = ::geteuid() == 0;
  for (const std::string& path : RemovablePaths(facts.manager)) {
    if (Exists(facts.root + path)) facts.there.insert(path);
  }
  facts.is_installed = facts.there.contains(DefinitionPath(facts.manager));
  if (facts.is_installed)
    facts.definition = ReadFileText(facts.root + DefinitionPath(facts.manager), kConfigBytesMax);
  if (!facts.only_files) QueryManager(facts);
  ServicePlaces queried = places;
  if (!places.to_install && places.program.empty()) {  // The installed program.
    queried.program = facts.is_packaged ? "/usr/bin/mlxcommd" : facts.root + kServiceProgram;
  }
  QueryProgram(queried, facts);
  CheckConfig(facts);
  const std::string socket = SettingIn(facts.config.value_or(""), "socket_path");
  facts.socket = socket.empty() ? queue::kServiceSocket : socket;
  if (!facts.only_files) QueryDaemon(facts);
  if (!places.to_install) return facts;
  CheckFolders(facts);
  if (facts.manager == ServiceManager::kLaunchd && !facts.in_place) {
    for (const std::string& file : {facts.program, facts.control}) {
      if (!file.empty()) FindLibraries(file, facts);
    }
  }
  return facts;
}

}  // namespace mlxcomm::ctl

// mlxcommctl launch runs the ranks of a job, on this machine and on others, as one program.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/launch/hostfile.h"
#include "client/ctl/launch/launch.h"
#include "client/ctl/launch/launch_hosts.h"
#include "client/ctl/launch/launch_run.h"
#include "client/ctl/launch/local_ranks.h"
#include "client/ctl/launch/rank_command.h"
#include "client/ctl/launch/ssh_command.h"
#include "client/ctl/launch/ssh_host.h"
#include "proto/queue/dial.h"
#include "proto/system/file_descriptor.h"
#include "proto/system/program.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr unsigned kTriesMax = 1000;
constexpr std::size_t kNameBytesMax = 200;  // The daemon's limit.

// Locks the name in the private daemon's folder, which only this user can write to. Not valid if
// another launch holds the name, or the folder is missing.
FileDescriptor Hold(const std::string& folder, const std::string& name) {
  FileDescriptor file(::open((folder + "/launch-" + name + ".lock").c_str(),
                             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.valid() && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.Reset();
  return file;
}

std::string RandomSuffix() {
  constexpr std::string_view kLetters = "abcdefghijkmnpqrstuvwxyz23456789";  // No look-alikes.
  std::random_device random;
  std::string suffix;
  for (int i = 0; i < 4; ++i) suffix += kLetters[random() % kLetters.size()];
  return suffix;
}

bool IsOwn(const std::string& folder) {
  struct stat facts{};
  ::mkdir(folder.c_str(), 0700);
  return ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid();
}

// A short name for the job, which no other launch of this user has. The object holds the name.
//
//   one node        "train"; if another launch on this machine holds it, or a job has it:
//                   "train-2", ...
//   several nodes   "train-k3f9": another machine may launch the same script at the same moment
class JobName {
 public:
  // `base` is from JobNameOf; `status` has no nodes if no daemon answers. `has_others`: some ranks
  // are on other hosts.
  static JobName Claim(const std::string& base, const v1::StatusReply& status, bool has_others) {
    JobName name;
    if (has_others || status.nodes_size() > 1) {
      name.text_ = base + "-" + RandomSuffix();
      return name;
    }
    const std::string folder = FolderOf(queue::PrivateSocketPath());
    const bool may_hold = IsOwn(folder);
    for (unsigned number = 1; may_hold && number <= kTriesMax; ++number) {
      name.text_ = number == 1 ? base : base + "-" + std::to_string(number);
      const auto user = std::ranges::find(status.jobs(), name.text_, &v1::JobStatus::name);
      if (user != status.jobs().end()) continue;
      name.held_ = Hold(folder, name.text_);
      if (name.held_.valid()) return name;
    }
    name.text_ = base + "-" + std::to_string(::getpid());
    return name;
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  FileDescriptor held_;
};

// Why a name from the user is refused; empty: it is valid.
std::string WhyNoJobName(const std::string& name) {
  if (!name.empty() && name.size() <= kNameBytesMax && IsPlainText(name) &&
      name.find('/') == std::string::npos) {
    return {};
  }
  return "expected a name of 1 to " + std::to_string(kNameBytesMax) +
         " bytes of UTF-8 without \"/\" and control characters" +
         (name.empty() ? ", got nothing" : ", got \"" + MakePrintable(name.substr(0, 60)) + "\"");
}

constexpr std::uint64_t kCopyTimeoutNs = 3600'000'000'000;

Failure NotCopied(const std::string& message) { return Invalid("--copy: " + message); }

// Finds the absolute path of the folder that --copy copies. INVALID_ARGUMENT: the command names no
// script on this machine, or the script's folder is too large.
Failure FolderToCopy(const std::vector<std::string>& command, const std::string& directory,
                     std::string& folder) {
  const std::string script = ScriptOf(command);
  if (script.empty()) return NotCopied("expected a Python script, such as -- python train.py");
  const std::string path =
      script.starts_with('/') || directory.empty() ? script : directory + "/" + script;
  std::array<char, PATH_MAX> resolved;
  const std::string named = path.find('/') == std::string::npos ? "." : FolderOf(path) + "/";
  if (::access(path.c_str(), R_OK) != 0 || ::realpath(named.c_str(), resolved.data()) == nullptr)
    return NotCopied(MakePrintable(script) + " is not here");
  folder = resolved.data();
  const char* const home = std::getenv("HOME");
  const bool is_home = home != nullptr && ::realpath(home, resolved.data()) != nullptr &&
                       (std::string(resolved.data()) + "/").starts_with(folder + "/");
  if (folder == "/" || is_home) {
    return NotCopied("it would copy all of " + MakePrintable(folder) +
                     ": put the script into a folder of its own");
  }
  return {};
}

// Copies `folder` to the same path on `host`, deleting nothing there. --rsync-path names the
// folder, because releases of rsync quote a destination path differently.
Failure CopyFolder(const std::string& folder, const std::string& host, const std::string& ssh) {
  std::string shell;
  for (const std::string& word : SshCommand(ssh)) shell += (shell.empty() ? "" : " ") + word;
  const std::string there = ShellWord(folder);
  const auto output =
      RunProgram({"rsync", "-a", "--exclude=.git", "--exclude=__pycache__", "--exclude=.venv", "-e",
                  shell, "--rsync-path=mkdir -p " + there + " && cd " + there + " && rsync",
                  folder + "/", host + ":./"},
                 {.timeout_ns = kCopyTimeoutNs, .with_errors = true, .until_exit = true});
  if (output.ok() && output->exit_code == 0) return {};
  return {FailureCode::kUnavailable, kNoRank,
          absl::StrCat("cannot copy to ", host, ": ", WhyNotCopied(ssh, host, folder, output))};
}

// The number of hosts with ranks. With several, ranks use no private daemon, because it cannot
// reach others.
constexpr char kHostsVariable[] = "MLXCOMM_HOSTS";
constexpr char kSocketVariable[] = "MLXCOMM_SOCKET";

// If the environment has a variable twice, the later one wins.
Failure MakeCommand(const LaunchOptions& options, const Hostfile& file, std::size_t size,
                    std::size_t hosts, RankCommand& command) {
  // Python programs then print at once, iterate over sets in the same order on all ranks, and use
  // the daemon whatever backend they name. The user's own settings win.
  for (const auto& [name, usual] :
       {std::pair("PYTHONUNBUFFERED", "1"), std::pair("PYTHONHASHSEED", "0"),
        std::pair("MLXCOMM_INSTALL", "all")}) {
    const char* const own = std::getenv(name);
    command.environment.emplace_back(name, own != nullptr ? own : usual);
  }
  winsize terminal{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0 && terminal.ws_col > 0) {
    command.environment.emplace_back("COLUMNS", std::to_string(terminal.ws_col));
    command.environment.emplace_back("LINES", std::to_string(terminal.ws_row));
  }
  // It applies to other hosts as well.
  if (const char* const socket = std::getenv(kSocketVariable); socket != nullptr)
    command.environment.emplace_back(kSocketVariable, socket);
  Failure failure = ReadEnvironment(options.hostfile + ": envs", file.envs, BareName::kEmpty,
                                    command.environment);
  if (failure.ok())
    failure = ReadEnvironment("--env", options.environment, BareName::kAsHere, command.environment);
  if (!failure.ok()) return failure;
  command.environment.emplace_back(kHostsVariable, std::to_string(hosts));
  command.environment.emplace_back("MLX_WORLD_SIZE", std::to_string(size));
  if (!options.socket_path.empty())
    command.environment.emplace_back(kSocketVariable, options.socket_path);
  command.command = WithPython(options.command, options.python, options.directory);
  command.directory = options.directory;
  command.directory_needed = !options.directory.empty();
  return {};
}

// Other hosts use the current directory, as with mlx.launch, if they have it.
RankCommand ForOtherHosts(RankCommand command) {
  std::array<char, 4096> here;
  if (command.directory.starts_with('/') || ::getcwd(here.data(), here.size()) == nullptr)
    return command;
  command.directory =
      command.directory.empty() ? here.data() : std::string(here.data()) + "/" + command.directory;
  return command;
}

// Adds the MPI library and a Python found beside this program, unless the user named others.
// "mlxcommctl" is this program, as on other hosts.
RankCommand ForThisHost(RankCommand command, const LaunchOptions& options,
                        const std::string& own_path) {
  std::vector<std::pair<std::string, std::string>> environment;
  AddMpiLibrary(own_path, environment);
  command.environment.insert(command.environment.begin(), environment.begin(), environment.end());
  if (options.python.empty() && command.command != options.command) {
    const std::string python = FolderOf(own_path) + "/" + kUsualPython;
    if (::access(python.c_str(), X_OK) == 0) command.command[0] = python;
  }
  if (command.command[0] == "mlxcommctl") command.command[0] = own_path;
  return command;
}

std::vector<unsigned> ReadersOf(const PlacedRanks& placed, const std::string& input) {
  if (input == "all") return placed.ranks;
  const bool has_0 = std::ranges::find(placed.ranks, 0u) != placed.ranks.end();
  return has_0 && input == "0" ? std::vector<unsigned>{0} : std::vector<unsigned>{};
}

// Warns if a host is listed twice, because the user may not expect its ranks to share a GPU.
void NoteSharedHosts(const std::vector<PlacedRanks>& placement) {
  for (const PlacedRanks& placed : placement) {
    if (placed.ranks.size() < 2) continue;
    std::fprintf(stderr, "mlxcommctl: the host file puts %zu ranks on %s, which share its GPU\n",
                 placed.ranks.size(), MakePrintable(placed.host).c_str());
  }
}

Failure CopyToOthers(const LaunchOptions& options, const std::vector<std::string>& command,
                     const std::vector<PlacedRanks>& placement) {
  std::string folder;
  Failure failure = FolderToCopy(command, options.directory, folder);
  for (const PlacedRanks& placed : placement) {
    if (!failure.ok()) return failure;
    if (placed.local) continue;
    std::fprintf(stderr, "mlxcommctl: copying %s to %s\n", MakePrintable(folder).c_str(),
                 MakePrintable(placed.host).c_str());
    failure = CopyFolder(folder, placed.host, options.ssh);
  }
  return failure;
}

int FailFor(const Failure& failure) {
  switch (failure.code) {
    case FailureCode::kInvalidArgument: return Fail(kExitUsage, failure.message);
    case FailureCode::kUnavailable: return Fail(kExitNoDaemon, failure.message);
    default: return Fail(kExitFailed, failure.message);
  }
}

Failure CheckOptions(const LaunchOptions& options) {
  if (options.command.empty())
    return Invalid("launch needs a program, such as: mlxcommctl launch -n 2 -- python train.py");
  if (options.ssh.find_first_not_of(" \t\n") == std::string::npos)
    return Invalid("--ssh: expected a command, got nothing");
  return {};
}

void AddPlaces(CLI::App& launch, LaunchOptions& options) {
  launch
      .add_option("-n,--ranks,--ranks-per-node,--repeat-hosts", options.ranks,
                  "Ranks on each host (1, or as the host file says)")
      ->type_name("COUNT")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text == "p"
                       ? std::string("use -n 2 (ranks on each host) or -N 2 (in all), not -np 2")
                       : std::string();
          },
          ""))
      ->check(CLI::Range(1, 64));
  launch.add_option("-N,--total", options.total, "Total number of ranks")
      ->type_name("COUNT")
      ->check(CLI::Range(1u, kRanksMax));
  CLI::Option* const hosts =
      launch
          .add_option("--hosts", options.hosts,
                      "Hosts, reached by ssh: mac-1,mac-2 or mac-[1-4] (this one)")
          ->type_name("HOSTS")
          ->check(NotEmpty("hosts; omit --hosts for this machine only"));
  CLI::Option* const hostfile = launch
                                    .add_option("--hostfile", options.hostfile,
                                                "Hosts from a file, in the form of MLX or MPI")
                                    ->check(NotEmpty("a file"))
                                    ->type_name("FILE");
  launch
      .add_option("--nodes", options.nodes,
                  "Nodes of this cluster: all that are up, or mac-1,mac-2")
      ->check(NotEmpty("all, or nodes"))
      ->type_name("NODES")
      ->excludes(hosts)
      ->excludes(hostfile);
  hosts->excludes(hostfile);
}

}  // namespace

int RunLaunch(const LaunchOptions& options) {
  if (::fcntl(STDOUT_FILENO, F_GETFD) < 0) {
    return Fail(kExitFailed,
                "standard output is closed, so the ranks' output would be lost: to discard it, "
                "redirect it to /dev/null");
  }
  Failure failure = CheckOptions(options);
  Hostfile file;
  if (failure.ok()) failure = ChooseHosts(options, file);
  std::vector<PlacedRanks> placement;
  if (failure.ok()) failure = PlaceLaunch(options, file, placement);
  if (!failure.ok()) return FailFor(failure);
  std::size_t size = 0;
  for (const PlacedRanks& placed : placement) size += placed.ranks.size();
  RankCommand command;
  failure = MakeCommand(options, file, size, placement.size(), command);
  if (!failure.ok()) return FailFor(failure);
  const std::string own_path = OwnPath(options.called);
  const RankCommand command_here = ForThisHost(command, options, own_path);
  const auto is_here = [](const PlacedRanks& placed) { return placed.local; };
  const bool has_ranks_here = std::ranges::any_of(placement, is_here);
  const bool has_others = !std::ranges::all_of(placement, is_here);
  constexpr std::uint64_t kPatienceNs = 1'000'000'000;
  v1::StatusReply status;  // Empty if no daemon answers, which the ranks report.
  static_cast<void>(FetchStatus(ValueOf(command, kSocketVariable), status, kPatienceNs));
  if (has_ranks_here) {
    if (const std::string why = WhyNoRanksHere(status); !why.empty()) return Fail(kExitFailed, why);
    if (const std::string why = WhyNotRun(command_here); !why.empty())
      return Fail(kExitNotFound, why + "; nothing was started");
  }
  if (!options.hostfile.empty() && options.ranks == 0) NoteSharedHosts(placement);
  if (options.copy) {
    if (failure = CopyToOthers(options, command.command, placement); !failure.ok())
      return failure.code == FailureCode::kUnavailable ? Fail(kExitFailed, failure.message)
                                                       : FailFor(failure);
  }
  JobName name;
  if (options.job.empty()) name = JobName::Claim(JobNameOf(command.command), status, has_others);
  const std::string job = options.job.empty() ? name.text() : options.job;
  HandleLaunchSignals();
  LaunchRun run({.job = job,
                 .size = size,
                 .prefix = options.prefix,
                 .verbose = options.verbose,
                 .keep_going = options.keep_going,
                 .is_python = IsPython(command.command[0]),
                 .grace = std::chrono::nanoseconds(options.grace_ns)});
  const bool only_reader = size == 1 || options.input == "0";
  for (const PlacedRanks& placed : placement) {
    const std::vector<unsigned> readers = ReadersOf(placed, options.input);
    const std::string shown_host = placement.size() > 1 ? placed.host : "";
    if (options.verbose) {
      std::fprintf(stderr, "mlxcommctl: %s on %s, job %s\n",
                   Plural(placed.ranks.size(), "rank").c_str(), placed.host.c_str(), job.c_str());
    }
    RankCommand own = placed.local ? command_here : ForOtherHosts(command);
    own.environment.emplace_back("MLXCOMM_JOB", job);
    if (placed.local) {
      const bool inherits = !readers.empty() && only_reader && ::isatty(STDIN_FILENO) == 0;
      auto here = std::make_unique<LocalRanks>(
          placed.ranks, inherits ? LocalRanks::Input::kInherited : LocalRanks::Input::kGiven,
          readers, run);
      here->SetCommand(std::move(own), own_path);
      run.Add(std::move(here), shown_host, placed.ranks, !readers.empty() && !inherits);
      continue;
    }
    auto host = std::make_unique<SshHost>(placed.host, placed.ranks, readers, std::move(own), run);
    if (const absl::Status status = host->Connect(options.ssh, own_path); !status.ok())
      return Fail(kExitFailed, std::string(status.message()));
    run.Add(std::move(host), shown_host, placed.ranks, !readers.empty());
  }
  const int code = run.Run();
  if (code == 0 || !options.reports_failure || run.has_printed()) return code;
  return Fail(code, "a rank failed; see standard error");
}

Run AddLaunch(CLI::App& launch, const Invocation& invocation) {
  const auto options = std::make_shared<LaunchOptions>();
  options->called = invocation.called;
  AddPlaces(launch, *options);
  launch
      .add_option("--env", options->environment,
                  "Set NAME=VALUE for the ranks, or NAME to its value here; repeatable")
      ->type_name("VARIABLE")
      ->take_all()
      ->allow_extra_args(false);
  launch
      .add_option("--stdin", options->input, "Which ranks get standard input: all, 0 or none (all)")
      ->check(CLI::IsMember({"all", "0", "none"}));
  launch
      .add_option("--cwd", options->directory,
                  "Start the ranks in this directory (the current one, or the home directory)")
      ->type_name("DIR");
  launch.add_option("--python", options->python, "Run the command with this Python")
      ->type_name("FILE");
  launch.add_option("--ssh", options->ssh, "The ssh command, such as \"ssh -p 2222\" (ssh)")
      ->type_name("COMMAND");
  launch
      .add_option("--job", options->job,
                  "Name of the job (the script's: train; on several nodes train-k3f9)")
      ->type_name("NAME")
      ->check(CLI::Validator([](const std::string& name) { return WhyNoJobName(name); }, ""));
  AddDuration(launch, "--grace", options->grace_ns, 0, 3600'000'000'000,
              "After a failure, give the other ranks this long to end (5s)");
  launch.add_flag("--keep-going", options->keep_going,
                  "After a failure, let the other ranks continue; see mlxcomm.shrink");
  launch.add_flag("--copy", options->copy,
                  "Copy the script and its folder to the other hosts first (rsync)");
  AddSocket(launch, options->socket_path);
  launch.add_flag("--verbose", options->verbose, "Report what is started, and how each rank ends");
  launch.add_option("command", options->command, "-- PROGRAM [ARGUMENT...], or a Python script");
  launch.positionals_at_end();
  launch.footer(
      R"(Another host needs sshd, ssh without prompts, and the same release of mlxcommctl. No rank
starts before all hosts have answered and found the program and the script. On other hosts
mlxcommctl's folder is first in PATH. `launch train.py` runs a script with the Python of
mlxcomm's environment. A host file is MLX's, a list or an object, or MPI's (slots=, user=,
host:2, node[01-04]).

Each rank gets MLX_RANK, MLX_WORLD_SIZE, MLXCOMM_JOB and the variables of --env. Unless they
are set, it also gets MLXCOMM_INSTALL=all (Python programs use the daemon whatever backend
they name), PYTHONUNBUFFERED=1, PYTHONHASHSEED=0 (a set has the same order on all ranks),
and MLX_MPI_LIBNAME if libmlxcomm_mpi is installed beside mlxcommctl. A Python with MLX but
without mlxcomm uses MLX's MPI backend, whatever the program names. MLXCOMM_HOSTS is the
number of hosts: with several and no mlxcommd, ranks fail at once. Variables of MLX's own
launcher are removed.

Each line of output has its rank as a prefix, and a host's own messages have the host. All
ranks get standard input (see --stdin); a rank other than 0 that reads none of it for 60 s
gets no more.

After a rank fails, the others have --grace to report their error and exit; then they and
their children get SIGTERM, and after 5 s SIGKILL. With --keep-going they continue, and
mlxcomm.shrink forms a group of them. A summary shows which rank failed
first, how, and what mlxcommd reported. launch exits with that rank's code, or 128 plus its
signal. Ctrl-C, a lost connection and the end of launch end all ranks.)");
  return [options] { return RunLaunch(*options); };
}

}  // namespace mlxcomm::ctl

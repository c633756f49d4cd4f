// mlxcommctl launch: the ranks of a job on this machine and on others, as one program.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/hosts/hostfile.h"
#include "client/ctl/launch/launch.h"
#include "client/ctl/launch/launch_frames.h"
#include "client/ctl/launch/launch_hosts.h"
#include "client/ctl/launch/local_ranks.h"
#include "client/ctl/launch/rank_lines.h"
#include "client/ctl/launch/ssh_command.h"
#include "client/ctl/launch/ssh_host.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr unsigned kRanksMax = 4096;
// The number of hosts with ranks: a private daemon cannot reach another (client/lib).
constexpr char kHostsVariable[] = "MLXCOMM_HOSTS";

// Written by the handler, read by the loop below.
volatile sig_atomic_t g_signal = 0;
void OnSignal(int signal) { g_signal = signal; }

// Ranks begin when every host has answered, so that a host that cannot be reached costs the others
// nothing; from then on the first that fails ends all.
class Launch : public RankListener {
 public:
  Launch(bool prefix, bool verbose) : lines_(prefix), verbose_(verbose) {}

  // `gets_input`: this process's input goes to it.
  void Add(std::unique_ptr<RankHost> host, bool gets_input) {
    if (gets_input) readers_.push_back({host.get()});
    hosts_.push_back(std::move(host));
  }
  int Run() {
    const auto done = [](const auto& host) { return host->done(); };
    while (!std::all_of(hosts_.begin(), hosts_.end(), done)) {
      BeginIfReady();
      Wait();
      Forward();
      for (const auto& host : hosts_) {
        host->HoldOutput(lines_.is_full());
        host->Turn();
      }
      if (shows_prompts_) lines_.ShowPrompt(0, Clock::now());
      Write();
    }
    lines_.EndAll();
    ShowTheRest();
    return exit_code_;
  }
  void FailWith(int code) {
    if (exit_code_ == 0) exit_code_ = code;
  }
  bool has_printed() const { return has_printed_; }

  void OnOutput(unsigned rank, int stream, std::string_view bytes) override {
    if (bytes.empty()) return lines_.End(rank, stream);
    has_printed_ = has_printed_ || stream == 0;
    lines_.Print(rank, stream, bytes);
  }
  void OnEnded(const RankEnd& end) override {
    const std::string rank = "mlxcommctl: rank " + std::to_string(end.rank) + " ended with ";
    if (verbose_) lines_.Say(rank + "code " + std::to_string(end.code()));
    if (end.code() == 0) return;
    if (!ending_) {
      lines_.Say(rank +
                 (end.signal != 0 ? "signal " + std::to_string(end.signal)
                                  : "exit code " + std::to_string(end.exit_code)) +
                 "; ending the others");
    }
    FailWith(end.code());
    EndAllOnce();
  }
  void OnInputTaken(const RankHost& host, std::size_t bytes) override {
    for (Reader& reader : readers_) {
      if (reader.host == &host) reader.under_way -= std::min(bytes, reader.under_way);
    }
  }
  void OnHostText(const std::string& host, const std::string& line) override {
    lines_.Say("[" + host + "] " + MakePrintable(line));
  }
  void OnHostFailed(const std::string& host, const std::string& why) override {
    if (!ending_) {
      lines_.Say("mlxcommctl: host " + host + ": " + MakePrintable(why) + "; " +
                 (begun_ ? "ending the others" : "nothing was started"));
    }
    FailWith(kExitFailed);
    if (begun_) EndAllOnce();
  }

 private:
  // Waits for every host, so that all hosts that cannot be reached are reported together.
  void BeginIfReady() {
    const auto failed = [](const auto& host) { return host->failed(); };
    const auto heard = [&](const auto& host) { return host->ready() || failed(host); };
    if (begun_ || ending_ || !std::all_of(hosts_.begin(), hosts_.end(), heard)) return;
    if (std::any_of(hosts_.begin(), hosts_.end(), failed)) return EndAll(SIGTERM);
    begun_ = true;
    for (const auto& host : hosts_) host->Begin();
  }
  // In the background of its terminal, reading would stop this process (tcsetattr(3), SIGTTIN); a
  // terminal that is not its own has no foreground.
  static bool MayRead() {
    const pid_t foreground = ::tcgetpgrp(STDIN_FILENO);
    return ::isatty(STDIN_FILENO) == 0 || foreground < 0 || foreground == ::getpgrp();
  }
  void Wait() {
    std::vector<pollfd> waited;
    const bool takes_input =
        begun_ && !readers_.empty() && MayRead() &&
        std::all_of(readers_.begin(), readers_.end(), [](const Reader& reader) {
          return reader.host->done() || reader.under_way < kLaunchInputBytesMax;
        });
    if (takes_input) waited.push_back({STDIN_FILENO, POLLIN, 0});
    for (const auto& host : hosts_) host->AddTo(waited);
    lines_.AddTo(waited);
    // Short, because the end of a child that has closed its pipes wakes nothing.
    ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
    if (takes_input && waited[0].revents != 0) PassInput();
  }
  void Write() {
    if (lines_.Write()) return;
    FailWith(128 + SIGPIPE);  // As for a program that writes to a closed pipe.
    EndAllOnce();
  }
  // Until it has been read, however slowly, or a signal comes.
  void ShowTheRest() {
    for (Write(); lines_.is_waiting() && g_signal == 0; Write()) {
      std::vector<pollfd> waited;
      lines_.AddTo(waited);
      ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
    }
    if (g_signal != 0) FailWith(128 + g_signal);
  }
  void PassInput() {
    std::array<char, kLaunchPieceBytes> bytes;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return EndInput();
    if (bytes[static_cast<std::size_t>(got) - 1] == '\n' && ::isatty(STDIN_FILENO) != 0) {
      lines_.PromptAnswered();
    }
    for (Reader& reader : readers_) {
      if (reader.host->done()) continue;
      reader.under_way += static_cast<std::size_t>(got);
      reader.host->GiveInput({bytes.data(), static_cast<std::size_t>(got)});
    }
  }
  void EndInput() {
    for (const Reader& reader : readers_) reader.host->GiveInput({});
    readers_.clear();
  }
  void Forward() {
    const int signal = g_signal;
    if (signal == 0) return;
    g_signal = 0;
    FailWith(128 + signal);
    EndAll(signal);
  }
  void EndAllOnce() {
    if (!ending_) EndAll(SIGTERM);
  }
  void EndAll(int signal) {
    ending_ = true;
    for (const auto& host : hosts_) host->End(signal);
  }

  RankLines lines_;
  const bool verbose_;
  const bool shows_prompts_ = ::isatty(STDOUT_FILENO) != 0;
  std::vector<std::unique_ptr<RankHost>> hosts_;
  struct Reader {
    RankHost* host;
    std::size_t under_way = 0;  // Given, and not yet taken by its ranks.
  };
  std::vector<Reader> readers_;  // For our input, where no rank has it itself.
  int exit_code_ = 0;
  bool has_printed_ = false;  // A rank has, on standard output.
  bool begun_ = false;
  bool ending_ = false;
};

// The environment of all ranks; where a variable stands twice, the later one counts.
Failure MakeCommand(const LaunchOptions& options, const Hostfile& file, std::size_t size,
                    std::size_t hosts, RankCommand& command) {
  // What makes Python programs show their output at once, and use the daemon whatever backend they
  // name; the user's own settings win.
  for (const auto& [name, usual] :
       {std::pair("PYTHONUNBUFFERED", "1"), std::pair("MLXCOMM_INSTALL", "all")}) {
    const char* const own = std::getenv(name);
    command.environment.emplace_back(name, own != nullptr ? own : usual);
  }
  winsize terminal{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0 && terminal.ws_col > 0) {
    command.environment.emplace_back("COLUMNS", std::to_string(terminal.ws_col));
    command.environment.emplace_back("LINES", std::to_string(terminal.ws_row));
  }
  Failure failure = ReadEnvironment(options.hostfile + ": envs", file.envs, BareName::kEmpty,
                                    command.environment);
  if (failure.ok())
    failure = ReadEnvironment("--env", options.environment, BareName::kAsHere, command.environment);
  if (!failure.ok()) return failure;
  const std::string own_job = "launch-" + OwnHostName() + "-" + std::to_string(::getpid()) + "-" +
                              std::to_string(std::time(nullptr));
  command.environment.emplace_back(kHostsVariable, std::to_string(hosts));
  command.environment.emplace_back("MLX_WORLD_SIZE", std::to_string(size));
  command.environment.emplace_back("MLXCOMM_JOB", options.job.empty() ? own_job : options.job);
  if (!options.socket_path.empty())
    command.environment.emplace_back("MLXCOMM_SOCKET", options.socket_path);
  if (!options.python.empty()) command.command.push_back(options.python);
  command.command.insert(command.command.end(), options.command.begin(), options.command.end());
  command.directory = options.directory;
  command.directory_needed = !options.directory.empty();
  return {};
}

// Empty: it is not there, or set to be so.
std::string ValueOf(const RankCommand& command, std::string_view variable) {
  std::string value;
  for (const auto& [name, given] : command.environment) {
    if (name == variable) value = given;
  }
  return value;
}

// Other hosts try the current directory, as with mlx.launch, and do without if it is missing.
RankCommand ForOtherHosts(RankCommand command) {
  std::array<char, 4096> here;
  if (command.directory.empty() && ::getcwd(here.data(), here.size()) != nullptr) {
    command.directory = here.data();
  }
  return command;
}

// The user's environment and --env win over what is found beside this program.
RankCommand ForThisHost(RankCommand command, const std::string& own_path) {
  std::vector<std::pair<std::string, std::string>> environment;
  AddMpiLibrary(own_path, environment);
  command.environment.insert(command.environment.begin(), environment.begin(), environment.end());
  return command;
}

// Signals that nohup, or a shell with `&`, has us ignore stay ignored.
void HandleSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action{};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = OnSignal;
    ::sigaction(signal, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);  // The failing write notices it: then all ranks end.
}

// Of the ranks of one host, those that get the input.
std::vector<unsigned> ReadersOf(const PlacedRanks& placed, const std::string& input) {
  if (input == "all") return placed.ranks;
  const bool has_0 = std::find(placed.ranks.begin(), placed.ranks.end(), 0u) != placed.ranks.end();
  return has_0 && input == "0" ? std::vector<unsigned>{0} : std::vector<unsigned>{};
}

}  // namespace

int RunLaunch(const LaunchOptions& options) {
  if (options.ssh.find_first_not_of(" \t\n") == std::string::npos) {
    return Fail(kExitUsage, "--ssh: expected how ssh is called, got nothing");
  }
  Hostfile file;
  if (const Failure failure = ChooseHosts(options, file); !failure.ok()) {
    return Fail(failure.code == FailureCode::kUnavailable ? kExitNoDaemon : kExitUsage,
                failure.message);
  }
  const std::vector<PlacedRanks> placement = PlaceRanks(file.hosts, options.ranks, OwnHostName());
  std::size_t size = 0;
  for (const PlacedRanks& placed : placement) size += placed.ranks.size();
  if (size == 0) return Fail(kExitUsage, options.hostfile + ": every host has slots=0");
  if (size > kRanksMax)
    return Fail(kExitUsage, "expected at most " + std::to_string(kRanksMax) + " ranks");
  RankCommand command;
  if (const Failure failure = MakeCommand(options, file, size, placement.size(), command);
      !failure.ok()) {
    return Fail(kExitUsage, failure.message);
  }
  const auto is_here = [](const PlacedRanks& placed) { return placed.local; };
  if (std::any_of(placement.begin(), placement.end(), is_here)) {
    const std::string why = WhyNoRanksHere(ValueOf(command, "MLXCOMM_SOCKET"));
    if (!why.empty()) return Fail(kExitFailed, why);
  }
  HandleSignals();
  const std::string own_path = OwnPath(options.called);
  Launch launch(options.prefix, options.verbose);
  const bool only_reader = size == 1 || options.input == "0";
  for (const PlacedRanks& placed : placement) {
    const std::vector<unsigned> readers = ReadersOf(placed, options.input);
    if (options.verbose) {
      std::fprintf(stderr, "mlxcommctl: %zu ranks on %s\n", placed.ranks.size(),
                   placed.host.c_str());
    }
    if (placed.local) {
      const bool inherits = !readers.empty() && only_reader && ::isatty(STDIN_FILENO) == 0;
      auto here = std::make_unique<LocalRanks>(
          placed.ranks, inherits ? LocalRanks::Input::kInherited : LocalRanks::Input::kGiven,
          readers, launch);
      here->SetCommand(ForThisHost(command, own_path), own_path);
      launch.Add(std::move(here), !readers.empty() && !inherits);
      continue;
    }
    auto host = std::make_unique<SshHost>(placed.host, placed.ranks, readers,
                                          ForOtherHosts(command), launch);
    if (!host->Connect(SshCommand(options.ssh), own_path)) {
      return Fail(kExitFailed,
                  "cannot start ssh for host " + placed.host + ": " + std::strerror(errno));
    }
    launch.Add(std::move(host), !readers.empty());
  }
  const int code = launch.Run();
  if (code == 0 || !options.reports_failure || launch.has_printed()) return code;
  return Fail(code, "a rank failed, and has said why on standard error");
}

Run AddLaunch(CLI::App& launch, const Invocation& invocation) {
  const auto made = std::make_shared<LaunchOptions>();
  LaunchOptions& options = *made;
  options.called = invocation.called;
  launch
      .add_option("-n,--ranks,--ranks-per-node,--repeat-hosts", options.ranks,
                  "How many ranks on each host (1, or what the hostfile says)")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 64));
  CLI::Option* const hosts =
      launch
          .add_option("--hosts", options.hosts,
                      "Hosts for ssh: mac-1,mac-2 or mac-[1-4] (this one)")
          ->type_name("HOSTS")
          ->check(NotEmpty("hosts; leave --hosts out for this machine alone"));
  CLI::Option* const hostfile = launch
                                    .add_option("--hostfile", options.hostfile,
                                                "Hosts from a file of MLX, MPI or `hosts export`")
                                    ->check(NotEmpty("a file"))
                                    ->type_name("FILE");
  launch
      .add_option("--nodes", options.nodes,
                  "Nodes of this cluster that are up: all, or a,b; ssh gets their names")
      ->check(NotEmpty("all, or nodes"))
      ->type_name("NODES")
      ->excludes(hosts)
      ->excludes(hostfile);
  hosts->excludes(hostfile);
  launch
      .add_option("--env", options.environment,
                  "NAME=VALUE for the ranks, or NAME as it is here; may be repeated")
      ->type_name("VARIABLE")
      ->take_all()
      ->allow_extra_args(false);
  launch
      .add_option("--stdin", options.input,
                  "Who reads what is piped in, or typed: all ranks, rank 0, or none (all)")
      ->check(CLI::IsMember({"all", "0", "none"}));
  launch
      .add_option("--cwd", options.directory,
                  "Where the ranks start; it must be there (this one, else the home directory)")
      ->type_name("DIR");
  launch.add_option("--python", options.python, "Run the command with this Python")
      ->type_name("FILE");
  launch.add_option("--ssh", options.ssh, "How ssh is called: \"ssh -p 2222\" (ssh)")
      ->type_name("COMMAND");
  launch.add_option("--job", options.job, "The job's name (default: one of its own)")
      ->type_name("NAME");
  AddSocket(launch, options.socket_path);
  launch.add_flag("--verbose", options.verbose, "Say what is started, and how it ends");
  launch.add_option("command", options.command, "-- PROGRAM [ARGUMENT...]")->required();
  launch.positionals_at_end();
  launch.footer(
      R"(Another host needs sshd, a key that needs no typing, and the same release of mlxcommctl;
nothing is started before all hosts have answered. On other hosts mlxcommctl's folder is
first in PATH.

Each rank gets MLX_RANK, MLX_WORLD_SIZE, MLXCOMM_JOB and the variables that are given, and
unless they are set MLXCOMM_INSTALL=all (Python programs go through the daemon whatever
backend they name), PYTHONUNBUFFERED=1, and MLX_MPI_LIBNAME if libmlxcomm_mpi is installed
beside mlxcommctl. MLXCOMM_HOSTS is the number of hosts: with several and no mlxcommd, ranks
fail at once. Variables of another launch of MLX are removed.

Output is shown line by line behind its rank, a host's own words behind the host. Input
goes to every rank, unless --stdin says otherwise; a rank other than 0 that reads none of
it for 60 s gets no more.

The first rank that fails ends the others, on all hosts: SIGTERM, after 5 s SIGKILL, with
all that they started. So do Ctrl-C, a lost connection and the end of launch. Each rank
ends with its host's agent.)");
  return [made] { return RunLaunch(*made); };
}

}  // namespace mlxcomm::ctl

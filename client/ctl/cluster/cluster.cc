// mlxcommctl cluster: creates, joins with and rotates the cluster's key. Only the key goes to
// standard output, so that it can be piped; messages go to standard error. The key is never an
// argument, because other users could see it.
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/key/key_code.h"
#include "proto/key/key_file.h"
#include "proto/queue/dial.h"

namespace mlxcomm::ctl {
namespace {

struct ClusterOptions {
  std::string socket_path;
  std::string key_file;                 // Set before the verb runs.
  std::string name;                     // create
  std::string from;                     // join, rotate --take: another key file; empty: prompt.
  std::vector<std::string> typed_code;  // Arguments after the verb, which are refused.
  bool json = false;                    // Instead of the bare code.
  bool id_only = false;                 // key show
  bool take = false;                    // key rotate
  bool finish = false;
  bool force = false;
};

constexpr auto kReloadTime = std::chrono::seconds(5);

void Print(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }
int FailWith(const std::string& why) { return ctl::Fail(kExitFailed, why); }
int FailWith(const absl::Status& status) { return FailWith(std::string(status.message())); }

// With --socket or MLXCOMM_SOCKET, this is the key file of that daemon.
std::string KeyFileOf(const ClusterOptions& options) {
  if (!options.key_file.empty()) return options.key_file;
  if (queue::SocketCandidates(options.socket_path).size() == 1) {
    const v1::NodeCheckup own = FetchOwnCheckup(options.socket_path);
    if (!own.key_file().empty()) return own.key_file();
  }
  return DefaultKeyFile();
}

std::string NameOf(const ClusterKeys& keys) {
  return keys.cluster.empty() ? "the cluster" : "cluster " + keys.cluster;
}

std::string CodeOf(const ClusterKeys& keys) { return WriteKeyCode({keys.cluster, keys.current}); }

// Hides typed characters during its lifetime. Signals that end the program, such as Ctrl-C, restore
// the echo.
class EchoOff {
 public:
  EchoOff() : on_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!on_) return;
    for (const int signal : kEnding) std::signal(signal, ShowAndEnd);
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  ~EchoOff() {
    if (!on_) return;
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    for (const int signal : kEnding) std::signal(signal, SIG_DFL);
    Print("");
  }
  EchoOff(const EchoOff&) = delete;
  EchoOff& operator=(const EchoOff&) = delete;

 private:
  static constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  // Async-signal-safe.
  static void ShowAndEnd(int signal) {
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    std::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  inline static termios before_ = {};  // Read by the signal handler.
  bool on_;
};

// Reads the key from --from, a prompt, or standard input.
absl::StatusOr<NamedKey> ReadKey(const ClusterOptions& options) {
  if (!options.from.empty()) {
    const absl::StatusOr<ClusterKeys> keys = ReadKeyFile(options.from);
    if (keys.ok()) return NamedKey{keys->cluster, keys->current};
    return keys.status();
  }
  std::string code;
  if (::isatty(STDIN_FILENO) != 0) {
    std::fprintf(stderr,
                 "Code of the key (from mlxcommctl cluster key show on a machine that has it): ");
    const EchoOff silent;
    std::getline(std::cin, code);
  } else {
    std::getline(std::cin, code);
  }
  return ReadKeyCode(code);
}

enum class Reload : std::uint8_t { kDone, kNoDaemon, kFailed };

std::vector<std::string> IdsOf(const ClusterKeys& keys) {
  std::vector<std::string> ids = {keys.current.IdText()};
  if (keys.previous.has_value()) ids.push_back(keys.previous->IdText());
  return ids;
}

bool Accepts(const v1::StatusReply& status, const ClusterKeys& keys) {
  if (status.nodes_size() == 0) return false;
  return std::ranges::equal(status.nodes(0).cluster_keys(), IdsOf(keys));
}

// The daemon that uses the key; not a private daemon, which has no neighbours.
std::string SocketOf(const ClusterOptions& options) {
  return queue::SocketCandidates(options.socket_path).front();
}

// Makes the daemon reread its key file with SIGHUP, and waits until its status shows the keys.
Reload NotifyDaemon(const ClusterOptions& options, const ClusterKeys& keys) {
  const std::string socket = SocketOf(options);
  v1::StatusReply status;
  const Failure failure = FetchStatus(socket, status);
  if (!failure.ok() && failure.code != FailureCode::kUnavailable) {
    Print("cannot make mlxcommd read the key: " + failure.message);
    return Reload::kFailed;
  }
  if (!failure.ok() || status.nodes_size() == 0) {
    Print("mlxcommd is not running here; it reads the key when it starts");
    return Reload::kNoDaemon;
  }
  const auto pid = static_cast<pid_t>(status.nodes(0).pid());
  const std::string command = "kill -HUP " + std::to_string(pid);
  if (::kill(pid, SIGHUP) != 0) {
    Print("cannot make mlxcommd read the key (" + std::string(std::strerror(errno)) +
          "): run sudo " + command);
    return Reload::kFailed;
  }
  const auto until = std::chrono::steady_clock::now() + kReloadTime;
  for (;;) {
    if (FetchStatus(socket, status).ok() && Accepts(status, keys)) {
      Print("mlxcommd (pid " + std::to_string(pid) + ") has read the key");
      return Reload::kDone;
    }
    if (std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Print("mlxcommd (pid " + std::to_string(pid) +
        ") does not use the key: see its log. If its configuration names another key_file or no "
        "peers, change that and restart it");
  return Reload::kFailed;
}

const char* NameOf(Reload result) {
  switch (result) {
    case Reload::kDone: return "has read it";
    case Reload::kNoDaemon: return "not running";
    case Reload::kFailed: break;
  }
  return "has not read it";
}

// Prints the key's code if `shows_code`; with --json one object.
int PrintKey(const ClusterOptions& options, const ClusterKeys& keys, bool shows_code,
             std::optional<Reload> reload = std::nullopt) {
  if (!options.json) return WriteOut(shows_code ? CodeOf(keys) + "\n" : "", "key");
  v1::ClusterKeyReport report;
  report.set_cluster(keys.cluster);
  report.set_key_file(options.key_file);
  for (const std::string& id : IdsOf(keys)) report.add_keys(id);
  if (shows_code) report.set_code(CodeOf(keys));
  if (reload.has_value()) report.set_daemon(NameOf(*reload));
  return WriteOut(JsonOf(std::move(report)), "key");
}

// The same after NotifyDaemon; if that failed, the verb fails.
int PrintOutcome(const ClusterOptions& options, const ClusterKeys& keys, bool shows_code,
                 Reload reload) {
  const int failed = PrintKey(options, keys, shows_code, reload);
  return failed == 0 && reload == Reload::kFailed ? kExitFailed : failed;
}

int Write(const std::string& path, const ClusterKeys& keys, Placing placing) {
  const absl::Status written = WriteKeyFile(path, keys, placing);
  return written.ok() ? 0 : FailWith(written);
}

// Returns the nodes that do not accept the key.
std::string NodesWithout(const v1::StatusReply& status, const std::string& id) {
  std::string lacking;
  for (const v1::NodeStatus& node : status.nodes()) {
    const auto& ids = node.cluster_keys();
    if (node.answered() && std::ranges::find(ids, id) != ids.end()) continue;
    lacking += (lacking.empty() ? "" : ", ") + Shown(node.name());
  }
  return lacking;
}

int FinishRotation(const ClusterOptions& options, const std::string& path, ClusterKeys keys) {
  if (!keys.previous.has_value()) {
    Print("no rotation is in progress: " + path + " has no previous key");
    return PrintKey(options, keys, /*shows_code=*/false);
  }
  if (!options.force) {
    v1::StatusReply status;
    if (const Failure failure = FetchStatus(SocketOf(options), status); !failure.ok()) {
      return FailWith("cannot check that all nodes have the new key: " + failure.message +
                      ". Start mlxcommd first, or use --force");
    }
    const std::string lacking = NodesWithout(status, keys.current.IdText());
    if (!lacking.empty()) {
      return FailWith("these nodes lack the new key: " + lacking +
                      ". Run mlxcommctl cluster key rotate --take there first, or use --force");
    }
  }
  keys.previous.reset();
  if (const int failed = Write(path, keys, Placing::kReplace); failed != 0) return failed;
  Print("from now on only the key " + keys.current.IdText() + " is accepted");
  return PrintOutcome(options, keys, /*shows_code=*/false, NotifyDaemon(options, keys));
}

int RunClusterCreate(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  if (!options.name.empty() && !IsClusterName(options.name)) {
    return Fail(kExitUsage, "--name: expected 1 to 63 bytes of UTF-8 without control characters");
  }
  const ClusterKeys keys{ClusterKey::MakeRandom(), std::nullopt, options.name};
  const absl::Status written = WriteKeyFile(path, keys, Placing::kOnlyNew);
  if (absl::IsAlreadyExists(written)) {
    return FailWith(std::string(written.message()) +
                    ": this machine already belongs to a cluster. Show its key with mlxcommctl "
                    "cluster key show, or change it with mlxcommctl cluster key rotate");
  }
  if (!written.ok()) return FailWith(written);
  Print("created the key of " + NameOf(keys) + ": " + path + " (id " + keys.current.IdText() + ")");
  Print(
      "on each other machine, run mlxcommctl cluster join and enter this code. Keep it secret, "
      "because everyone who has it can join.");
  Print("then start or restart mlxcommd on all machines");
  return PrintKey(options, keys, /*shows_code=*/true);
}

int RunClusterJoin(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  const absl::StatusOr<NamedKey> key = ReadKey(options);
  if (!key.ok()) return FailWith(key.status());
  const ClusterKeys keys{key->key, std::nullopt, key->cluster};
  const absl::Status written = WriteKeyFile(path, keys, Placing::kOnlyNew);
  if (absl::IsAlreadyExists(written)) {
    const absl::StatusOr<ClusterKeys> there = ReadKeyFile(path);
    if (!there.ok()) return FailWith(there.status());
    if (!(there->current == keys.current)) {
      return FailWith(path + " has another key (id " + there->current.IdText() +
                      "). If the cluster's key is being rotated, run mlxcommctl cluster key rotate "
                      "--take. To leave that cluster, run rm " +
                      path);
    }
    Print("this machine already has that key: " + path);
    return PrintOutcome(options, *there, /*shows_code=*/false, NotifyDaemon(options, *there));
  }
  if (!written.ok()) return FailWith(written);
  Print("stored the key of " + NameOf(keys) + ": " + path + " (id " + keys.current.IdText() + ")");
  // Not PrintOutcome: a daemon that ran without a key must be restarted; the exit status is still
  // 0.
  return PrintKey(options, keys, /*shows_code=*/false, NotifyDaemon(options, keys));
}

int RunClusterKeyShow(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  const absl::StatusOr<ClusterKeys> keys = ReadKeyFile(path);
  if (!keys.ok()) return FailWith(keys.status());
  Print("the key of " + NameOf(*keys) + ", " + path + " (id " + keys->current.IdText() +
        (keys->previous.has_value() ? "; still accepted: " + keys->previous->IdText() : "") + ")");
  return PrintKey(options, *keys, /*shows_code=*/!options.id_only);
}

int RunClusterKeyRotate(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  absl::StatusOr<ClusterKeys> keys = ReadKeyFile(path);
  if (!keys.ok()) return FailWith(keys.status());
  if (options.finish) return FinishRotation(options, path, *std::move(keys));
  ClusterKey next = keys->current;
  if (options.take) {
    const absl::StatusOr<NamedKey> key = ReadKey(options);
    if (!key.ok()) return FailWith(key.status());
    if (key->key == keys->current) {
      Print("this machine already has that key: " + path);
      return PrintOutcome(options, *keys, /*shows_code=*/false, NotifyDaemon(options, *keys));
    }
    next = key->key;
  } else {
    next = ClusterKey::MakeRandom();
  }
  if (keys->previous.has_value()) {
    return FailWith("a rotation from " + keys->previous->IdText() + " to " +
                    keys->current.IdText() +
                    " is in progress: run mlxcommctl cluster key rotate --finish first");
  }
  const ClusterKeys changed{next, keys->current, keys->cluster};
  if (const int failed = Write(path, changed, Placing::kReplace); failed != 0) return failed;
  Print("the key is now " + changed.current.IdText() + "; " + changed.previous->IdText() +
        " is still accepted");
  const Reload reload = NotifyDaemon(options, changed);
  if (!options.take) {
    Print(
        "on each other machine, run mlxcommctl cluster key rotate --take and enter this code; then "
        "run mlxcommctl cluster key rotate --finish on all machines");
  }
  return PrintOutcome(options, changed, /*shows_code=*/!options.take, reload);
}

Run WithKeyFile(const std::shared_ptr<ClusterOptions>& made, int (*run)(const ClusterOptions&)) {
  return [made, run] {
    if (!made->typed_code.empty()) {
      return Fail(
          kExitUsage,
          "do not pass the code as an argument, because other users could see it in the process "
          "list: enter it at the prompt, or pipe it (mlxcommctl cluster key show | ssh HOST "
          "mlxcommctl cluster join). Remove it from your shell's history");
    }
    made->key_file = KeyFileOf(*made);
    return run(*made);
  };
}

std::shared_ptr<ClusterOptions> AddKeyOptions(CLI::App& verb) {
  auto made = std::make_shared<ClusterOptions>();
  verb.add_flag("--json", made->json, "Print JSON: the key's facts, and its code if shown");
  verb.add_option("--key-file", made->key_file,
                  "Key file of this machine (the daemon's, otherwise mlxcommd's default)")
      ->type_name("FILE");
  AddSocket(verb, made->socket_path);
  // Accepted only to refuse it with an explanation.
  verb.add_option("code", made->typed_code)->group("");
  return made;
}

}  // namespace

Run AddClusterCreate(CLI::App& create, const Invocation&) {
  const auto made = AddKeyOptions(create);
  create.add_option("--name", made->name, "Name of the cluster")->type_name("NAME");
  create.footer(
      R"(Writes the key to the key file, which only its owner can read (/etc/mlxcommd/key for root,
otherwise ~/.config/mlxcommd/key), and prints it as a code. Never replaces an existing file.)");
  return WithKeyFile(made, RunClusterCreate);
}

Run AddClusterJoin(CLI::App& join, const Invocation&) {
  const auto made = AddKeyOptions(join);
  join.add_option("--from", made->from, "Read the key from this file instead of asking")
      ->type_name("FILE");
  join.footer(
      R"(Prompts for the code, or reads it from a pipe; the 64 hexadecimal digits of a key are
accepted, too. The code includes the cluster's name; a name in the configuration overrides
it. Start or restart mlxcommd afterwards.)");
  return WithKeyFile(made, RunClusterJoin);
}

Run AddClusterKeyShow(CLI::App& show, const Invocation&) {
  const auto made = AddKeyOptions(show);
  show.add_flag("--id", made->id_only, "Print the key's id, which is not secret");
  return WithKeyFile(made, RunClusterKeyShow);
}

Run AddClusterKeyRotate(CLI::App& rotate, const Invocation&) {
  const auto made = AddKeyOptions(rotate);
  ClusterOptions& options = *made;
  CLI::Option* const take = rotate.add_flag(
      "--take", options.take, "Take the new key; prompts for the code that rotate printed");
  rotate.add_option("--from", options.from, "Read the key from this file instead of asking")
      ->type_name("FILE")
      ->needs(take);
  CLI::Option* const finish =
      rotate.add_flag("--finish", options.finish, "Stop accepting the old key")->excludes(take);
  rotate.add_flag("--force", options.force, "Finish even if a node lacks the new key")
      ->needs(finish);
  rotate.footer(
      R"(Run it first without options on one machine: it makes a new key and prints its code. Then
run --take on each other machine, then --finish on each, which fails while a node of the
cluster lacks the new key. Connections stay up. After --finish, a node that has only the
old key is disconnected within 5 s.)");
  return WithKeyFile(made, RunClusterKeyRotate);
}

}  // namespace mlxcomm::ctl

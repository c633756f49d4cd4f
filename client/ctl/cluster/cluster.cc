// mlxcommctl cluster: makes the cluster's key, takes over that of another machine, changes it. Only
// the key goes to standard output, so that it can be piped; all messages go to standard error. The
// key is never an argument on the command line, which others see.
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
  std::string key_file;  // Set before a verb runs.
  std::string name;      // create
  std::string from;      // join, rotate --take: another key file; empty: asks for it.
  std::vector<std::string> typed_code;  // Words behind the verb, which are refused.
  bool json = false;                    // On standard output instead of the bare code.
  bool id_only = false;                 // key show
  bool take = false;                    // key rotate
  bool finish = false;
  bool force = false;
};

constexpr auto kReloadTime = std::chrono::seconds(5);

void Say(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }
int FailWith(const std::string& why) { return ctl::Fail(kExitFailed, why); }
int FailWith(const absl::Status& status) { return FailWith(std::string(status.message())); }

// Where --socket or MLXCOMM_SOCKET names a daemon, the key is the one that this daemon uses.
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

// Typed characters stay hidden while it exists. A signal that ends the program, such as Ctrl-C,
// switches the echo on again.
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
    Say("");
  }
  EchoOff(const EchoOff&) = delete;
  EchoOff& operator=(const EchoOff&) = delete;

 private:
  static constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  // Only calls that are allowed in a signal handler.
  static void ShowAndEnd(int signal) {
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    std::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  inline static termios before_ = {};  // For the handler.
  bool on_;
};

// From --from, a prompt, or standard input.
absl::StatusOr<NamedKey> AskForKey(const ClusterOptions& options) {
  if (!options.from.empty()) {
    const absl::StatusOr<ClusterKeys> keys = ReadKeyFile(options.from);
    if (keys.ok()) return NamedKey{keys->cluster, keys->current};
    return keys.status();
  }
  std::string code;
  if (::isatty(STDIN_FILENO) != 0) {
    std::fprintf(stderr,
                 "The key's code (mlxcommctl cluster key show, on a machine that has it): ");
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

// A running daemon reads its key file again on SIGHUP; its status shows whether it has. For the
// daemon that uses the key: no private one, which has no neighbours.
std::string SocketOf(const ClusterOptions& options) {
  return queue::SocketCandidates(options.socket_path).front();
}

Reload NotifyDaemon(const ClusterOptions& options, const ClusterKeys& keys) {
  const std::string socket = SocketOf(options);
  v1::StatusReply status;
  const Failure failure = FetchStatus(socket, status);
  if (!failure.ok() && failure.code != FailureCode::kUnavailable) {
    Say("cannot ask mlxcommd to read it: " + failure.message);
    return Reload::kFailed;
  }
  if (!failure.ok() || status.nodes_size() == 0) {
    Say("no mlxcommd runs here; the next one reads it at its start");
    return Reload::kNoDaemon;
  }
  const auto pid = static_cast<pid_t>(status.nodes(0).pid());
  const std::string command = "kill -HUP " + std::to_string(pid);
  if (::kill(pid, SIGHUP) != 0) {
    Say("cannot ask mlxcommd to read it (" + std::string(std::strerror(errno)) + "): sudo " +
        command);
    return Reload::kFailed;
  }
  const auto until = std::chrono::steady_clock::now() + kReloadTime;
  for (;;) {
    if (FetchStatus(socket, status).ok() && Accepts(status, keys)) {
      Say("mlxcommd (pid " + std::to_string(pid) + ") has read it");
      return Reload::kDone;
    }
    if (std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Say("mlxcommd (pid " + std::to_string(pid) +
      ") does not use it: its log says why, or its configuration names another key_file, or no "
      "peers; restart it then");
  return Reload::kFailed;
}

const char* NameOf(Reload reported) {
  switch (reported) {
    case Reload::kDone: return "has read it";
    case Reload::kNoDaemon: return "not running";
    case Reload::kFailed: break;
  }
  return "has not read it";
}

// Prints the key's code to standard output, where there is a reason to show it; with --json one
// object.
int Print(const ClusterOptions& options, const ClusterKeys& keys, bool shows_code,
          std::optional<Reload> reported = std::nullopt) {
  if (!options.json) return WriteOut(shows_code ? CodeOf(keys) + "\n" : "", "key");
  v1::ClusterKeyReport report;
  report.set_cluster(keys.cluster);
  report.set_key_file(options.key_file);
  for (const std::string& id : IdsOf(keys)) report.add_keys(id);
  if (shows_code) report.set_code(CodeOf(keys));
  if (reported.has_value()) report.set_daemon(NameOf(*reported));
  return WriteOut(JsonOf(std::move(report)), "key");
}

// The same after the daemon was asked to read the key; failing to reach a running one is a failure.
int PrintOutcome(const ClusterOptions& options, const ClusterKeys& keys, bool shows_code,
                 Reload reported) {
  const int failed = Print(options, keys, shows_code, reported);
  return failed == 0 && reported == Reload::kFailed ? kExitFailed : failed;
}

int Write(const std::string& path, const ClusterKeys& keys, KeyFileMode mode) {
  const absl::Status written = WriteKeyFile(path, keys, mode);
  return written.ok() ? 0 : FailWith(written);
}

// No node may be left with only the old key.
std::string WhoLacks(const v1::StatusReply& status, const std::string& id) {
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
    Say("there is no previous key in " + path + ": nothing is to be finished");
    return Print(options, keys, /*shows_code=*/false);
  }
  if (!options.force) {
    v1::StatusReply status;
    if (const Failure failure = FetchStatus(SocketOf(options), status); !failure.ok()) {
      return FailWith("whether all nodes have the new key is not known: " + failure.message +
                      ". Start mlxcommd first; or --force");
    }
    const std::string lacking = WhoLacks(status, keys.current.IdText());
    if (!lacking.empty()) {
      return FailWith("without the new key would be: " + lacking +
                      ". There first: mlxcommctl cluster key rotate --take; or --force");
    }
  }
  keys.previous.reset();
  if (const int failed = Write(path, keys, KeyFileMode::kReplace); failed != 0) return failed;
  Say("only the key " + keys.current.IdText() + " is accepted from now on");
  return PrintOutcome(options, keys, /*shows_code=*/false, NotifyDaemon(options, keys));
}

int RunClusterCreate(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  if (!options.name.empty() && !IsClusterName(options.name)) {
    return Fail(kExitUsage, "--name: expected 1 to 63 bytes of UTF-8 without control characters");
  }
  const ClusterKeys keys{ClusterKey::MakeRandom(), std::nullopt, options.name};
  const absl::Status written = WriteKeyFile(path, keys, KeyFileMode::kOnlyNew);
  if (absl::IsAlreadyExists(written)) {
    return FailWith(
        std::string(written.message()) +
        ", which stays as it is: this machine belongs to a cluster already. Show it with: "
        "mlxcommctl cluster key show; change it with: mlxcommctl cluster key rotate");
  }
  if (!written.ok()) return FailWith(written);
  Say("made the key of " + NameOf(keys) + ": " + path + " (id " + keys.current.IdText() + ")");
  Say("on each other machine: mlxcommctl cluster join, and when it asks, this code. Who has it "
      "can join, so show it to nobody else.");
  Say("then start mlxcommd, or restart it, on all of them");
  return Print(options, keys, /*shows_code=*/true);
}

int RunClusterJoin(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  const absl::StatusOr<NamedKey> key = AskForKey(options);
  if (!key.ok()) return FailWith(key.status());
  const ClusterKeys keys{key->key, std::nullopt, key->cluster};
  const absl::Status written = WriteKeyFile(path, keys, KeyFileMode::kOnlyNew);
  if (absl::IsAlreadyExists(written)) {
    const absl::StatusOr<ClusterKeys> there = ReadKeyFile(path);
    if (!there.ok()) return FailWith(there.status());
    if (!(there->current == keys.current)) {
      return FailWith("there is another key in " + path + " (id " + there->current.IdText() +
                      "), which stays as it is. If the cluster's key is being changed: mlxcommctl "
                      "cluster key rotate --take. To leave that cluster: rm " +
                      path);
    }
    Say("this machine has that key already: " + path);
    return PrintOutcome(options, *there, /*shows_code=*/false, NotifyDaemon(options, *there));
  }
  if (!written.ok()) return FailWith(written);
  Say("took the key of " + NameOf(keys) + ": " + path + " (id " + keys.current.IdText() + ")");
  // A daemon that ran without a key has to be restarted: no mistake.
  return Print(options, keys, /*shows_code=*/false, NotifyDaemon(options, keys));
}

int RunClusterKeyShow(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  const absl::StatusOr<ClusterKeys> keys = ReadKeyFile(path);
  if (!keys.ok()) return FailWith(keys.status());
  Say("the key of " + NameOf(*keys) + ", " + path + " (id " + keys->current.IdText() +
      (keys->previous.has_value() ? "; still accepted: " + keys->previous->IdText() : "") + ")");
  return Print(options, *keys, /*shows_code=*/!options.id_only);
}

int RunClusterKeyRotate(const ClusterOptions& options) {
  const std::string& path = options.key_file;
  absl::StatusOr<ClusterKeys> keys = ReadKeyFile(path);
  if (!keys.ok()) return FailWith(keys.status());
  if (options.finish) return FinishRotation(options, path, *std::move(keys));
  ClusterKey next = keys->current;
  if (options.take) {
    const absl::StatusOr<NamedKey> key = AskForKey(options);
    if (!key.ok()) return FailWith(key.status());
    if (key->key == keys->current) {
      Say("this machine has that key already: " + path);
      return PrintOutcome(options, *keys, /*shows_code=*/false, NotifyDaemon(options, *keys));
    }
    next = key->key;
  } else {
    next = ClusterKey::MakeRandom();
  }
  if (keys->previous.has_value()) {
    return FailWith("the key is being changed already, from " + keys->previous->IdText() + " to " +
                    keys->current.IdText() + ": mlxcommctl cluster key rotate --finish first");
  }
  const ClusterKeys changed{next, keys->current, keys->cluster};
  if (const int failed = Write(path, changed, KeyFileMode::kReplace); failed != 0) return failed;
  Say("the key is now " + changed.current.IdText() + "; " + changed.previous->IdText() +
      " is still accepted");
  const Reload reported = NotifyDaemon(options, changed);
  if (!options.take) {
    Say("on each other machine: mlxcommctl cluster key rotate --take, and this code; when all have "
        "it, on each: mlxcommctl cluster key rotate --finish");
  }
  return PrintOutcome(options, changed, /*shows_code=*/!options.take, reported);
}

Run WithKeyFile(const std::shared_ptr<ClusterOptions>& made, int (*run)(const ClusterOptions&)) {
  return [made, run] {
    if (!made->typed_code.empty()) {
      return Fail(
          kExitUsage,
          "the code is not an argument, because others would see it in the list of processes: "
          "leave it out and type it when asked, or pipe it (mlxcommctl cluster key show | "
          "ssh HOST mlxcommctl cluster join). Remove it from your shell's history");
    }
    made->key_file = KeyFileOf(*made);
    return run(*made);
  };
}

std::shared_ptr<ClusterOptions> AddKeyOptions(CLI::App& verb) {
  auto made = std::make_shared<ClusterOptions>();
  verb.add_flag("--json", made->json, "Print JSON: the key's facts, and its code if shown");
  verb.add_option("--key-file", made->key_file,
                  "Key file of this machine (the daemon's, else mlxcommd's default)")
      ->type_name("FILE");
  AddSocket(verb, made->socket_path);
  // People who have the code at hand type it behind the verb.
  verb.add_option("code", made->typed_code)->group("");
  return made;
}

}  // namespace

Run AddClusterCreate(CLI::App& create, const Invocation&) {
  const auto made = AddKeyOptions(create);
  create.add_option("--name", made->name, "Name of the cluster")->type_name("NAME");
  create.footer(
      R"(The key goes into the key file, which only its owner can read (/etc/mlxcommd/key for root,
else ~/.config/mlxcommd/key), and as a code to standard output. An existing file is kept.)");
  return WithKeyFile(made, RunClusterCreate);
}

Run AddClusterJoin(CLI::App& join, const Invocation&) {
  const auto made = AddKeyOptions(join);
  join.add_option("--from", made->from, "Read the key from this file instead of asking")
      ->type_name("FILE");
  join.footer(
      R"(The code may come from a pipe; the 64 hexadecimal digits of a key do as well. The
cluster's name comes with it, unless the configuration has one. Start mlxcommd, or restart
it, afterwards.)");
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
      "--take", options.take, "Take the new key: asks for the code that rotate printed");
  rotate.add_option("--from", options.from, "Read the key from this file instead of asking")
      ->type_name("FILE")
      ->needs(take);
  CLI::Option* const finish =
      rotate.add_flag("--finish", options.finish, "Stop accepting the old key")->excludes(take);
  rotate.add_flag("--force", options.force, "Finish even if a node lacks the new key")
      ->needs(finish);
  rotate.footer(
      R"(First rotate on one machine, which makes a new key and prints its code; then --take on
each other machine; then --finish on each, which is refused as long as a node of the
cluster lacks the new key. Connections stay up. After --finish a node that has only the
old key is out within 5 s.)");
  return WithKeyFile(made, RunClusterKeyRotate);
}

}  // namespace mlxcomm::ctl

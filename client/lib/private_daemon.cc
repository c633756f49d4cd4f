#include "client/lib/private_daemon.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "proto/queue/dial.h"

extern char** environ;

namespace mlxcomm::client {
namespace {

Failure Unavailable(const std::string& message) {
  return {FailureCode::kUnavailable, kNoRank, message};
}

std::string FindDaemon() {
  std::vector<std::string> candidates;
  if (const char* const named = std::getenv("MLXCOMM_DAEMON"); named != nullptr) return named;
  const std::string folder = LibraryFolder();
  if (!folder.empty()) {
    candidates.push_back(folder + "/mlxcommd");
    candidates.push_back(folder + "/../bin/mlxcommd");
    candidates.push_back(folder + "/../../daemon/mlxcommd");  // A build folder.
  }
  std::istringstream path(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string entry; std::getline(path, entry, ':');) candidates.push_back(entry + "/mlxcommd");
  for (const std::string& candidate : candidates) {
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

// The socket's folder is ours alone, or nothing in it can be trusted.
Failure MakePrivateFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unavailable("cannot make " + folder + ": " + std::strerror(errno));
  }
  struct stat facts {};
  if (::lstat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) ||
      facts.st_uid != ::getuid() || (facts.st_mode & 022) != 0) {
    return Unavailable(folder + " is not a folder of this user alone: remove it");
  }
  return {};
}

std::string TailOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::string tail;
  for (std::size_t i = lines.size() > 3 ? lines.size() - 3 : 0; i < lines.size(); ++i) {
    tail += (tail.empty() ? "" : " | ") + lines[i];
  }
  return tail;
}

bool Answers(const std::string& socket_path) {
  queue::Dialed dialed;
  const Failure failure =
      queue::Dial(socket_path, queue::ProcessRole::kTool, 0, 1'000'000'000, dialed);
  for (int i = 0; i < dialed.descriptor_count; ++i) ::close(dialed.descriptors[i]);
  if (dialed.connection >= 0) ::close(dialed.connection);
  return failure.code != FailureCode::kUnavailable;
}

// In a session of its own, so that Ctrl-C in this terminal does not end it.
Failure Spawn(const std::string& daemon, const std::string& socket_path, const std::string& log,
              pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string arguments[] = {daemon, "--private", "--socket", socket_path};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), nullptr};
  const int failed =
      ::posix_spawn(&pid, daemon.c_str(), &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return Unavailable("cannot start " + daemon + ": " + std::strerror(failed));
  return {};
}

}  // namespace

std::string LibraryFolder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&LibraryFolder), &info) == 0) return {};
  const std::string file(info.dli_fname == nullptr ? "" : info.dli_fname);
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? std::string() : file.substr(0, slash);
}

Failure StartPrivateDaemon(const std::string& socket_path, std::uint64_t timeout_ns) {
  const std::string daemon = FindDaemon();
  if (daemon.empty()) {
    return Unavailable(
        "no mlxcommd is running and none was found to start: install mlxcomm, or name it in "
        "MLXCOMM_DAEMON");
  }
  const std::string folder = socket_path.substr(0, socket_path.rfind('/'));
  if (Failure failure = MakePrivateFolder(folder); !failure.ok()) return failure;
  const int lock = ::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  const auto late = [&] { return std::chrono::steady_clock::now() >= deadline; };
  constexpr auto kPause = std::chrono::milliseconds(2);
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0 && !late()) std::this_thread::sleep_for(kPause);
  Failure outcome;
  pid_t pid = -1;
  const std::string log = folder + "/mlxcommd.log";
  if (!Answers(socket_path)) outcome = Spawn(daemon, socket_path, log, pid);
  while (outcome.ok() && !Answers(socket_path)) {
    int status = 0;
    if (pid > 0 && ::waitpid(pid, &status, WNOHANG) == pid) {
      outcome = Unavailable("the private daemon " + daemon + " ended at once: " + TailOf(log));
    } else if (late()) {
      outcome = Unavailable("the private daemon " + daemon + " is not ready in time: " +
                            TailOf(log));
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  ::close(lock);
  return outcome;
}

}  // namespace mlxcomm::client

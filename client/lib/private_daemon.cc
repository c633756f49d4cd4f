#include "client/lib/private_daemon.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include "proto/queue/dial.h"
#include "proto/system/blocked_signals.h"

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
  for (std::string entry; std::getline(path, entry, ':');)
    candidates.push_back(entry + "/mlxcommd");
  for (const std::string& candidate : candidates) {
    if (::access(candidate.c_str(), X_OK) != 0) continue;
    std::error_code error;  // The name in messages: not "lib/../bin/mlxcommd".
    const std::filesystem::path plain = std::filesystem::canonical(candidate, error);
    return error ? candidate : plain.string();
  }
  return {};
}

// Only this user may have access to the socket's folder, otherwise nothing in it can be trusted.
Failure MakePrivateFolder(const std::string& folder, const std::string& socket_path) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unavailable("cannot make " + folder + " for a private daemon: " + std::strerror(errno) +
                       ". Set XDG_RUNTIME_DIR or TMPDIR to an existing folder that you own");
  }
  struct stat facts{};
  if (::lstat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
    return Unavailable(folder + " is not a folder: remove it");
  return queue::CheckSocketPlace(socket_path, /*is_private=*/true);
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

// Also true for a daemon that runs but has not answered yet.
bool Answers(const std::string& socket_path) {
  queue::Dialed dialed;
  const Failure failure =
      queue::Dial(socket_path, queue::ProcessRole::kTool, 0, 1'000'000'000, dialed);
  for (int i = 0; i < dialed.descriptor_count; ++i) ::close(dialed.descriptors[i]);
  if (dialed.connection >= 0) ::close(dialed.connection);
  return failure.code != FailureCode::kUnavailable;
}

// In a process group of its own, so that Ctrl-C in this terminal does not end it, but in our
// session: Linux shares cores among sessions first (sched(7), "autogroup"), and a thread that
// yields does so only within its session (and CPU control group). With few cores, the daemon and
// the ranks wait for each other's.
//
// It must hold no pipe or lock of ours: a process that waits for us to exit would wait for it too.
Failure Spawn(const std::string& daemon, const std::string& socket_path, const std::string& log,
              pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  int flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK;
#if defined(__APPLE__)
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#elif defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#endif
  posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  // TMPDIR may name a folder in the working directory, and the daemon accepts no relative path.
  std::error_code error;
  const std::filesystem::path place = std::filesystem::absolute(socket_path, error);
  std::string arguments[] = {daemon, "--private", "--socket", error ? socket_path : place.string()};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), nullptr};
  const int failed = ::posix_spawn(&pid, daemon.c_str(), &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return Unavailable("cannot start " + daemon + ": " + std::strerror(failed));
  return {};
}

// One turn of waiting; stop if not ok.
using Patience = std::function<Failure()>;

// The process that holds the lock starts the daemon; the others find it there.
Failure LockFolder(const std::string& folder, const Patience& patience, int& lock) {
  const std::string path = folder + "/lock";
  lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) {
    return Unavailable("cannot open " + path + ": " + std::strerror(errno) + ". Remove " + folder);
  }
  while (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return Unavailable("cannot lock " + path + ": " + std::strerror(errno));
    }
    Failure over = patience();
    if (over.code == FailureCode::kUnavailable) {
      over.message =
          "another process has been starting a private daemon for too long: it holds " + path;
    }
    if (!over.ok()) return over;
  }
  return {};
}

// If the program ignores SIGCHLD, or reaps its children itself, waitpid finds no child; then this
// asks whether the process exists.
bool HasEnded(pid_t pid) {
  int status = 0;
  const pid_t ended = ::waitpid(pid, &status, WNOHANG);
  if (ended == pid) return true;
  return ended < 0 && errno == ECHILD && ::kill(pid, 0) != 0 && errno == ESRCH;
}

// Waits for it to exit, so that it leaves no zombie in a program that continues. The thread handles
// none of the program's signals, and keeps the library loaded.
void AwaitEndAside(pid_t pid) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&LibraryFolder), &info) != 0) {
    ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
  const BlockedSignals blocked;
  try {
    std::thread([pid] {
      while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }).detach();
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): a zombie stays then.
  }
}

Failure SpawnAndAwait(const std::string& daemon, const std::string& socket_path,
                      const std::string& log, const Patience& patience) {
  pid_t pid = -1;
  if (Failure failure = Spawn(daemon, socket_path, log, pid); !failure.ok()) return failure;
  while (!Answers(socket_path)) {
    if (HasEnded(pid)) {
      return Unavailable("the private daemon " + daemon + " ended at once: " + TailOf(log));
    }
    Failure over = patience();
    if (over.code == FailureCode::kUnavailable) {
      over.message = "the private daemon " + daemon + " is not ready in time: " + TailOf(log);
    }
    if (over.ok()) continue;
    AwaitEndAside(pid);  // It may still come up.
    return over;
  }
  AwaitEndAside(pid);
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

Failure StartPrivateDaemon(const std::string& socket_path, std::uint64_t timeout_ns,
                           const std::function<bool()>& interrupted) {
  const std::string daemon = FindDaemon();
  if (daemon.empty()) {
    return Unavailable(
        "no mlxcommd is running and none was found to start: install mlxcomm, or name it in "
        "MLXCOMM_DAEMON");
  }
  const std::string folder = socket_path.substr(0, socket_path.rfind('/'));
  if (Failure failure = MakePrivateFolder(folder, socket_path); !failure.ok()) return failure;
  constexpr std::uint64_t kTimeoutMostNs = 86'400'000'000'000;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::nanoseconds(std::min(timeout_ns, kTimeoutMostNs));
  const Patience patience = [&]() -> Failure {
    if (interrupted && interrupted()) {
      return {FailureCode::kCancelled, kNoRank, "interrupted while a private daemon started"};
    }
    if (std::chrono::steady_clock::now() >= deadline) return Unavailable("not ready in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return {};
  };
  int lock = -1;
  Failure outcome = LockFolder(folder, patience, lock);
  if (outcome.ok() && !Answers(socket_path)) {
    outcome = SpawnAndAwait(daemon, socket_path, queue::PrivateLogFile(socket_path), patience);
  }
  if (lock >= 0) ::close(lock);
  return outcome;
}

}  // namespace mlxcomm::client

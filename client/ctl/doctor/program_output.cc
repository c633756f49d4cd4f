#include "client/ctl/doctor/program_output.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace mlxcomm::ctl {
namespace {

using Clock = std::chrono::steady_clock;
// A process that the system can kill has ended by then.
constexpr std::chrono::seconds kUntilKilled{5};

std::vector<std::string> PlainEnvironment(
    const std::vector<std::pair<std::string, std::string>>& more) {
  const auto is_replaced = [&more](std::string_view text) {
    return std::any_of(more.begin(), more.end(),
                       [text](const auto& one) { return text.starts_with(one.first + "="); });
  };
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("LC_") || text.starts_with("LANG") || is_replaced(text)) continue;
    all.emplace_back(text);
  }
  all.emplace_back("LC_ALL=C");
  for (const auto& [name, value] : more) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

absl::StatusOr<pid_t> Spawn(std::vector<std::string> words, int output,
                            const ProgramOptions& options) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (options.with_errors) {
    ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  // Those of libraries are not all close-on-exec: connections that cpp-httplib accepts are not.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);  // So that its children can be killed with it.
  int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP;
#if defined(POSIX_SPAWN_CLOEXEC_DEFAULT)
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;  // On macOS a socket is not close-on-exec from the start.
#endif
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  std::vector<std::string> environment = PlainEnvironment(options.environment);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0].c_str(), &actions, &attributes,
                                   Pointers(words).data(), Pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(words[0], ": no such program"));
  if (error != 0) return absl::UnavailableError(absl::StrCat(words[0], ": ", std::strerror(error)));
  return child;
}

// Reads what is available now or within `patience_ms`. False: nothing more will come.
bool ReadSome(int descriptor, int patience_ms, std::string& text) {
  char bytes[16384];
  pollfd ready{descriptor, POLLIN, 0};
  if (::poll(&ready, 1, patience_ms) <= 0) return true;
  const ssize_t count = ::read(descriptor, bytes, sizeof bytes);
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  const std::size_t space = kOutputBytesMax - std::min(kOutputBytesMax, text.size());
  text.append(bytes, std::min(space, static_cast<std::size_t>(count)));
  return true;
}

// False: the deadline came first.
bool ReadAll(int descriptor, Clock::time_point deadline, std::string& text) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (!ReadSome(descriptor, static_cast<int>(std::min<long long>(left, 1000)), text)) return true;
  }
}

// False: it has not ended in time.
bool Reap(pid_t child, Clock::time_point deadline, int& status) {
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// Reads until the program has ended, and what it had written by then. False: the deadline came
// first.
bool ReadUntilExit(pid_t child, int descriptor, Clock::time_point deadline, std::string& text,
                   int& status) {
  constexpr int kLookMs = 20;
  bool open = true;
  while (Clock::now() < deadline) {
    open = open && ReadSome(descriptor, kLookMs, text);
    if (!Reap(child, open ? Clock::now() : deadline, status)) continue;
    for (std::size_t before = 0; open && before != text.size();) {
      before = text.size();
      open = ReadSome(descriptor, 0, text);
    }
    return true;
  }
  return false;
}

// Between the making of a pipe and setting it close-on-exec, a program that another thread starts
// would inherit its ends, and hold them open.
std::mutex g_starts_program;

// `from`: the end to read its output from.
absl::StatusOr<pid_t> Start(const std::vector<std::string>& words, const ProgramOptions& options,
                            int& from) {
  const std::lock_guard<std::mutex> alone(g_starts_program);
  int ends[2];
  if (::pipe(ends) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no pipe: ", std::strerror(errno)));
  }
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  const absl::StatusOr<pid_t> child = Spawn(words, ends[1], options);
  ::close(ends[1]);
  if (!child.ok()) ::close(ends[0]);
  from = child.ok() ? ends[0] : -1;
  return child;
}

}  // namespace

std::string HowItEnded(const ProgramOutput& output) {
  return output.exit_code > 128 ? absl::StrCat("ended by signal ", output.exit_code - 128)
                                : absl::StrCat("ended with ", output.exit_code);
}

absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                         const ProgramOptions& options) {
  if (words.empty()) return absl::InvalidArgumentError("no program is named");
  const auto deadline = Clock::now() + std::chrono::nanoseconds(options.timeout_ns);
  int from = -1;
  const absl::StatusOr<pid_t> child = Start(words, options, from);
  if (!child.ok()) return child.status();
  ProgramOutput output;
  int status = 0;
  const bool ended = options.until_exit
                         ? ReadUntilExit(*child, from, deadline, output.text, status)
                         : ReadAll(from, deadline, output.text) && Reap(*child, deadline, status);
  ::close(from);
  if (!ended) {
    ::kill(-*child, SIGKILL);
    const std::string what =
        absl::StrCat(words[0], " did not end within ", options.timeout_ns / 1'000'000'000, " s");
    if (Reap(*child, Clock::now() + kUntilKilled, status)) return absl::DeadlineExceededError(what);
    return absl::AbortedError(absl::StrCat(what, ", and cannot be ended"));
  }
  output.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return output;
}

std::string ReadFileText(const std::string& path, std::size_t bytes_max) {
  // A device or pipe with that name must not block us.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {};
  std::string text(bytes_max, '\0');
  std::size_t size = 0;
  while (size < bytes_max) {
    const ssize_t count = ::read(descriptor, text.data() + size, bytes_max - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
  text.resize(size);
  return text;
}

std::vector<std::string> ListFolder(const std::string& path) {
  constexpr std::size_t kNamesMax = 4096;
  std::vector<std::string> names;
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && names.size() < kNamesMax) names.push_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mlxcomm::ctl

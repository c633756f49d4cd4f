#include "proto/system/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proto/system/file_descriptor.h"

extern char** environ;

namespace mlxcomm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kThird = 3;
constexpr int kSignalMost = 64;
// A process that the system can kill ends within this time.
constexpr std::chrono::seconds kUntilKilled{5};

std::vector<std::string> PlainEnvironment(
    const std::vector<std::pair<std::string, std::string>>& more) {
  const auto is_replaced = [&more](std::string_view text) {
    return std::ranges::any_of(
        more, [text](const auto& one) { return text.starts_with(one.first + "="); });
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

// Reads what is available within `patience_ms`. False if the output is closed.
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

// Reads until the program has closed its output and exited; with `until_exit` until it has exited.
absl::StatusCode Follow(pid_t program, int descriptor, const ProgramOptions& options,
                        std::string& text, int& status) {
  constexpr int kLookMs = 20;
  const auto deadline = Clock::now() + std::chrono::nanoseconds(options.timeout_ns);
  for (bool open = true; Clock::now() < deadline;) {
    open = open && ReadSome(descriptor, kLookMs, text);
    if (options.killed_above > 0 && text.size() > options.killed_above)
      return absl::StatusCode::kOutOfRange;
    if (open && !options.until_exit) continue;
    const auto left = open ? Clock::duration::zero() : deadline - Clock::now();
    if (!AwaitProgram(program, left, status)) continue;
    for (std::size_t before = 0; open && before != text.size();) {
      before = text.size();
      open = ReadSome(descriptor, 0, text);
    }
    return absl::StatusCode::kOk;
  }
  return absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

absl::StatusOr<pid_t> StartProgram(std::vector<std::string> words, ProgramStart start) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (start.input < 0) {
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    ::posix_spawn_file_actions_adddup2(&actions, start.input, STDIN_FILENO);
  }
  const int output = start.output < 0 ? STDERR_FILENO : start.output;
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (start.error >= 0) ::posix_spawn_file_actions_adddup2(&actions, start.error, STDERR_FILENO);
  // Clears its close-on-exec flag, even if it is number 3 already.
  const bool has_third = start.third >= 0;
  if (has_third) ::posix_spawn_file_actions_adddup2(&actions, start.third, kThird);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  int flags = POSIX_SPAWN_SETSIGMASK | (start.leads_group ? POSIX_SPAWN_SETPGROUP : 0);
  // Another thread's new descriptor may not be close-on-exec yet.
#if defined(__APPLE__)
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
  if (start.error < 0) ::posix_spawn_file_actions_addinherit_np(&actions, STDERR_FILENO);
  if (start.third == kThird) ::posix_spawn_file_actions_addinherit_np(&actions, kThird);
#elif defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  ::posix_spawn_file_actions_addclosefrom_np(&actions, has_third ? kThird + 1 : kThird);
#endif
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  std::vector<char*> variables = Pointers(start.environment);
  pid_t program = 0;
  const int error =
      ::posix_spawnp(&program, words[0].c_str(), &actions, &attributes, Pointers(words).data(),
                     start.environment.empty() ? environ : variables.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(words[0], ": no such program"));
  if (error != 0) return absl::UnavailableError(absl::StrCat(words[0], ": ", std::strerror(error)));
  return program;
}

bool AwaitProgram(pid_t program, std::chrono::nanoseconds patience, int& status) {
  for (const auto end = Clock::now() + patience;;) {
    const pid_t ended = ::waitpid(program, &status, WNOHANG);
    if (ended == program) return true;
    if (ended < 0 && errno != EINTR) {
      status = -1;
      return true;
    }
    if (Clock::now() >= end) return false;
    ::poll(nullptr, 0, 1);
  }
}

int ExitCodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string HowEnded(int exit_code) {
  const int number = exit_code - 128;
  if (number <= 0 || number > kSignalMost) return absl::StrCat("with exit code ", exit_code);
  return absl::StrCat("by signal ", number, " (", ::strsignal(number), ")");
}

absl::Status RunProgram(const std::vector<std::string>& words, const ProgramOptions& options,
                        ProgramOutput& output) {
  if (words.empty()) return absl::InvalidArgumentError("no program given");
  FileDescriptor from, to, nowhere;
  if (!MakePipe(from, to)) {
    return absl::ResourceExhaustedError(absl::StrCat("no pipe: ", std::strerror(errno)));
  }
  if (!options.own_errors) nowhere.Reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const absl::StatusOr<pid_t> program =
      StartProgram(words, {.output = to.get(),
                           .error = options.with_errors ? to.get() : nowhere.get(),
                           .leads_group = true,
                           .environment = PlainEnvironment(options.environment)});
  if (!program.ok()) return program.status();
  to.Reset();
  int status = 0;
  const absl::StatusCode why = Follow(*program, from.get(), options, output.text, status);
  const bool killed = why != absl::StatusCode::kOk;
  if (killed) ::kill(-*program, SIGKILL);
  const bool ended = !killed || AwaitProgram(*program, kUntilKilled, status);
  output.undead = ended ? 0 : *program;
  output.exit_code = ended ? ExitCodeOf(std::max(status, 0)) : 0;
  if (!killed) return absl::OkStatus();
  const std::string what = why == absl::StatusCode::kOutOfRange
                               ? words[0] + " wrote too much output"
                               : absl::StrCat(words[0], " did not end within ",
                                              options.timeout_ns / 1'000'000'000, " s");
  return ended ? absl::Status(why, what)
               : absl::AbortedError(absl::StrCat(what, ", and cannot be killed"));
}

absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                         const ProgramOptions& options) {
  ProgramOutput output;
  if (absl::Status status = RunProgram(words, options, output); !status.ok()) return status;
  return output;
}

}  // namespace mlxcomm

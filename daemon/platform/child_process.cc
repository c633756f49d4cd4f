#include "daemon/platform/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"

extern char** environ;

namespace mlxcomm::platform {
namespace {

constexpr int kThird = 3;

}  // namespace

absl::StatusOr<pid_t> StartProgram(const std::string& program,
                                   const std::vector<std::string>& arguments,
                                   const ChildDescriptors& descriptors) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (descriptors.input < 0) {
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    ::posix_spawn_file_actions_adddup2(&actions, descriptors.input, STDIN_FILENO);
  }
  const int output = descriptors.output < 0 ? STDERR_FILENO : descriptors.output;
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  // Even if it is number 3 already: this clears its close-on-exec flag.
  const bool has_third = descriptors.third >= 0;
  if (has_third) ::posix_spawn_file_actions_adddup2(&actions, descriptors.third, kThird);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  int flags = POSIX_SPAWN_SETSIGMASK;
#if defined(__APPLE__)
  // A descriptor that another thread has just made may not have the flag itself yet.
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
  ::posix_spawn_file_actions_addinherit_np(&actions, STDERR_FILENO);
  if (descriptors.third == kThird) ::posix_spawn_file_actions_addinherit_np(&actions, kThird);
#elif defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  ::posix_spawn_file_actions_addclosefrom_np(&actions, has_third ? kThird + 1 : kThird);
#endif
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return absl::UnavailableError(
      absl::StrCat(program, " cannot be started: ", std::strerror(error)));
}

Reading ReadOutput(int input, std::uint64_t end_ns, std::size_t bytes_max, std::string& text) {
  for (;;) {
    const std::uint64_t now = MonotonicNow();
    if (now >= end_ns) return Reading::kTimeOut;
    pollfd waited{input, POLLIN, 0};
    if (::poll(&waited, 1, static_cast<int>((end_ns - now) / 1'000'000 + 1)) <= 0) continue;
    char some[4096];
    const ssize_t got = ::read(input, some, sizeof some);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Reading::kAll;
    if (text.size() + static_cast<std::size_t>(got) > bytes_max) return Reading::kTooMuch;
    text.append(some, static_cast<std::size_t>(got));
  }
}

void AwaitEnd(pid_t pid, std::uint64_t end_ns, int& status) {
  int told = 0;
  while (::waitpid(pid, &told, WNOHANG) == 0) {
    if (MonotonicNow() >= end_ns) return;
    ::poll(nullptr, 0, 1);
  }
  status = told;
}

std::string HowEnded(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return absl::StrCat("by signal ", number, " (", ::strsignal(number), ")");
  }
  return absl::StrCat("with exit code ", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

}  // namespace mlxcomm::platform

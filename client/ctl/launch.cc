#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <utility>

#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank may take to end after SIGTERM.
constexpr auto kPatience = std::chrono::seconds(5);
// How long output is waited for that something else holds open, once all ranks ended.
constexpr auto kLastWords = std::chrono::seconds(1);
// A line that is longer is shown in pieces.
constexpr std::size_t kLineBytesMax = 64 * 1024;

// Written by the handler, read by the loop.
volatile sig_atomic_t g_signal = 0;
void OnSignal(int signal) { g_signal = signal; }

struct Rank {
  unsigned number = 0;
  bool prefix = true;           // Its lines are shown behind its number.
  pid_t pid = -1;
  int output[2] = {-1, -1};     // Pipes from its standard output and error.
  std::string partial[2];       // Lines not yet complete.
  bool returned[2] = {};        // The last byte was a carriage return.
  bool ended = false;
  bool group_left = false;      // Somebody is in its process group, perhaps not itself.

  bool alive() const { return pid > 0 && !ended; }
  bool open() const { return output[0] >= 0 || output[1] >= 0; }
};

void PrintLine(Rank& rank, int stream) {
  std::string& line = rank.partial[stream];
  FILE* const to = stream == 0 ? stdout : stderr;
  if (rank.prefix) std::fprintf(to, "[%u] ", rank.number);
  std::fwrite(line.data(), 1, line.size(), to);
  std::fputc('\n', to);
  line.clear();
}

// Complete lines, and the states of progress bars (carriage returns), each behind its
// rank. False: nobody reads them any more. A full disk ends no job, and is said once.
bool Print(Rank& rank, int stream, const char* data, std::size_t bytes) {
  std::string& partial = rank.partial[stream];
  for (std::size_t i = 0; i < bytes; ++i) {
    const bool after_return = std::exchange(rank.returned[stream], data[i] == '\r');
    if (data[i] == '\n' && after_return && partial.empty()) continue;  // Of one line's end.
    const bool ends = data[i] == '\n' || (data[i] == '\r' && !partial.empty());
    if (!ends && data[i] != '\r') partial += data[i];
    if (ends || partial.size() >= kLineBytesMax) PrintLine(rank, stream);
  }
  FILE* const to = stream == 0 ? stdout : stderr;
  if (std::fflush(to) == 0) return true;
  if (errno == EPIPE) return false;
  static bool said = false;
  if (!std::exchange(said, true)) {
    std::fprintf(stderr, "mlxcommctl: output is lost: %s\n", std::strerror(errno));
  }
  std::clearerr(to);
  return true;
}

bool Flush(Rank& rank, int stream) {
  return rank.partial[stream].empty() || Print(rank, stream, "\n", 1);
}

// Rank 0 may read what is piped in. The others have nothing to read, and nobody has a
// terminal: their process groups are in its background, where reading stops a process.
void ChooseInput(const Rank& rank) {
  if (rank.number == 0 && ::isatty(STDIN_FILENO) == 0) return;
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0) return;  // Then it has what we have.
  ::dup2(nothing, STDIN_FILENO);
  ::close(nothing);
}

// In the child: environment, pipes, a process group of its own, the command.
[[noreturn]] void Become(const Rank& rank, const LaunchOptions& options, int out, int error) {
  ::setpgid(0, 0);
  ChooseInput(rank);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  std::signal(SIGPIPE, SIG_DFL);  // Ours is ignored, and that would be inherited.
  const std::string number = std::to_string(rank.number);
  const std::string size = std::to_string(options.ranks);
  ::setenv("MLX_RANK", number.c_str(), 1);
  ::setenv("MLX_WORLD_SIZE", size.c_str(), 1);
  ::setenv("MLXCOMM_JOB", options.job.c_str(), 1);
  if (!options.socket_path.empty()) ::setenv("MLXCOMM_SOCKET", options.socket_path.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : options.command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "mlxcommctl: cannot start %s: %s\n", arguments[0], std::strerror(errno));
  ::_exit(127);
}

bool Start(Rank& rank, const LaunchOptions& options) {
  int out[2];
  int error[2];
  if (::pipe(out) != 0) return false;
  if (::pipe(error) != 0) return false;
  for (const int end : {out[0], out[1], error[0], error[1]}) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  rank.pid = ::fork();
  if (rank.pid < 0) return false;
  if (rank.pid == 0) Become(rank, options, out[1], error[1]);
  ::setpgid(rank.pid, rank.pid);  // Whoever is first; the other fails harmlessly.
  ::close(out[1]);
  ::close(error[1]);
  rank.group_left = true;
  rank.output[0] = out[0];
  rank.output[1] = error[0];
  return true;
}

class Launch {
 public:
  explicit Launch(std::vector<Rank>& ranks) : ranks_(ranks) {}

  // Until all ranks have ended and their output is shown. What they leave behind is
  // not waited for when all went well, and ended with them otherwise.
  int Run() {
    while (AnyAlive() || LeftBehind() ||
           (AnyOpen() && Clock::now() < last_alive_ + kLastWords)) {
      Forward();
      ReadOutput();
      Reap();
      if (AnyAlive()) last_alive_ = Clock::now();
      if (killing_ && Clock::now() >= kill_at_) SignalAll(SIGKILL);
    }
    for (Rank& rank : ranks_) {
      for (int stream = 0; stream < 2; ++stream) Flush(rank, stream);
    }
    return exit_code_;
  }
  void EndAll() {
    if (killing_) return;
    BeginToKill();
    SignalAll(SIGTERM);
  }
  void FailWith(int code) {
    if (exit_code_ == 0) exit_code_ = code;
  }

 private:
  bool AnyAlive() const {
    return std::any_of(ranks_.begin(), ranks_.end(), std::mem_fn(&Rank::alive));
  }
  bool AnyOpen() const {
    return std::any_of(ranks_.begin(), ranks_.end(), std::mem_fn(&Rank::open));
  }
  // Bounded, for where nobody waits for orphans they stay in their group for ever.
  bool LeftBehind() const {
    return killing_ && Clock::now() < kill_at_ + kLastWords &&
           std::any_of(ranks_.begin(), ranks_.end(), std::mem_fn(&Rank::group_left));
  }
  // The number of a group in which nobody is left may be somebody else's soon.
  void SignalAll(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.group_left) ::kill(-rank.pid, signal);
    }
  }
  void BeginToKill() {
    killing_ = true;
    kill_at_ = Clock::now() + kPatience;
  }
  void Forward() {
    const int signal = g_signal;
    if (signal == 0) return;
    g_signal = 0;
    SignalAll(signal);
    if (!killing_) BeginToKill();
    FailWith(128 + signal);
  }
  void ReadOutput() {
    std::vector<pollfd> waited;
    std::vector<std::pair<Rank*, int>> whose;
    for (Rank& rank : ranks_) {
      for (int stream = 0; stream < 2; ++stream) {
        if (rank.output[stream] < 0) continue;
        waited.push_back({rank.output[stream], POLLIN, 0});
        whose.emplace_back(&rank, stream);
      }
    }
    // Short, for the end of a child comes without a word on the pipes it has closed.
    ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
    for (std::size_t i = 0; i < waited.size(); ++i) {
      if (waited[i].revents == 0) continue;
      auto& [rank, stream] = whose[i];
      char bytes[8192];
      const ssize_t got = ::read(waited[i].fd, bytes, sizeof bytes);
      bool shown = true;
      if (got > 0) {
        shown = Print(*rank, stream, bytes, static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        shown = Flush(*rank, stream);
        ::close(rank->output[stream]);
        rank->output[stream] = -1;
      }
      if (shown) continue;
      FailWith(128 + SIGPIPE);  // As a program does that writes to a closed pipe.
      EndAll();
    }
  }
  void Reap() {
    for (Rank& rank : ranks_) {
      int status = 0;
      if (rank.ended && rank.group_left) rank.group_left = ::kill(-rank.pid, 0) == 0;
      if (rank.pid <= 0 || rank.ended || ::waitpid(rank.pid, &status, WNOHANG) != rank.pid) {
        continue;
      }
      rank.ended = true;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (code == 0) continue;
      if (!killing_) {
        std::fprintf(stderr, "mlxcommctl: rank %u ended with %s %d; ending the others\n",
                     rank.number, WIFSIGNALED(status) ? "signal" : "exit code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : code);
      }
      FailWith(code);
      EndAll();
    }
  }

  std::vector<Rank>& ranks_;
  int exit_code_ = 0;
  bool killing_ = false;
  Clock::time_point kill_at_;
  Clock::time_point last_alive_ = Clock::now();
};

}  // namespace

int RunLaunch(const LaunchOptions& given) {
  LaunchOptions options = given;
  if (options.job.empty()) {
    options.job = "launch-" + std::to_string(::getpid()) + "-" + std::to_string(std::time(nullptr));
  }
  struct sigaction action {};
  action.sa_handler = OnSignal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // Seen by the write that fails: then all ranks end.
  std::vector<Rank> ranks(options.ranks);
  Launch launch(ranks);
  for (unsigned i = 0; i < options.ranks; ++i) {
    ranks[i].number = i;
    ranks[i].prefix = options.prefix;
    if (Start(ranks[i], options)) continue;
    std::fprintf(stderr, "mlxcommctl: cannot start rank %u: %s\n", i, std::strerror(errno));
    launch.FailWith(kExitFailed);
    launch.EndAll();
    break;
  }
  return launch.Run();
}

}  // namespace mlxcomm::ctl

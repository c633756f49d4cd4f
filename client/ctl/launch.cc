#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank may take to end after SIGTERM.
constexpr auto kPatience = std::chrono::seconds(5);

// Written by the handler, read by the loop.
volatile sig_atomic_t g_signal = 0;
void OnSignal(int signal) { g_signal = signal; }

struct Rank {
  unsigned number = 0;
  pid_t pid = -1;
  int output[2] = {-1, -1};     // Pipes from its standard output and error.
  std::string partial[2];       // Lines not yet complete.
  bool ended = false;
};

// Complete lines, and the last state of progress bars (carriage returns), each
// behind its rank.
void Print(Rank& rank, int stream, const char* data, std::size_t bytes) {
  std::string& partial = rank.partial[stream];
  partial.append(data, bytes);
  FILE* const to = stream == 0 ? stdout : stderr;
  std::size_t end;
  while ((end = partial.find_first_of("\r\n")) != std::string::npos) {
    const bool more_follows = partial[end] == '\r' && end + 1 < partial.size();
    const bool crlf = more_follows && partial[end + 1] == '\n';
    if (end > 0 || partial[end] == '\n') {
      std::fprintf(to, "[%u] %.*s\n", rank.number, static_cast<int>(end), partial.c_str());
    }
    partial.erase(0, end + (crlf ? 2 : 1));
  }
  std::fflush(to);
}

void Flush(Rank& rank, int stream) {
  if (!rank.partial[stream].empty()) Print(rank, stream, "\n", 1);
}

// In the child: environment, pipes, a process group of its own, the command.
[[noreturn]] void Become(const Rank& rank, const LaunchOptions& options, int out, int error) {
  ::setpgid(0, 0);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
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
  rank.output[0] = out[0];
  rank.output[1] = error[0];
  return true;
}

class Launch {
 public:
  explicit Launch(std::vector<Rank>& ranks) : ranks_(ranks) {}

  int Run() {
    while (AnyOpen() || AnyAlive()) {
      Forward();
      ReadOutput();
      Reap();
      if (killing_ && Clock::now() >= kill_at_) SignalAll(SIGKILL);
    }
    return exit_code_;
  }
  void EndAll() {
    if (killing_) return;
    killing_ = true;
    kill_at_ = Clock::now() + kPatience;
    SignalAll(SIGTERM);
  }
  void FailWith(int code) {
    if (exit_code_ == 0) exit_code_ = code;
  }

 private:
  bool AnyAlive() const {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0 && !rank.ended) return true;
    }
    return false;
  }
  bool AnyOpen() const {
    for (const Rank& rank : ranks_) {
      if (rank.output[0] >= 0 || rank.output[1] >= 0) return true;
    }
    return false;
  }
  void SignalAll(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0 && (!rank.ended || signal == SIGKILL)) ::kill(-rank.pid, signal);
    }
  }
  void Forward() {
    const int signal = g_signal;
    if (signal == 0) return;
    g_signal = 0;
    SignalAll(signal);
    if (!killing_) {
      killing_ = true;
      kill_at_ = Clock::now() + kPatience;
    }
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
      if (got > 0) {
        Print(*rank, stream, bytes, static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        Flush(*rank, stream);
        ::close(rank->output[stream]);
        rank->output[stream] = -1;
      }
    }
  }
  void Reap() {
    for (Rank& rank : ranks_) {
      int status = 0;
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
  std::vector<Rank> ranks(options.ranks);
  Launch launch(ranks);
  for (unsigned i = 0; i < options.ranks; ++i) {
    ranks[i].number = i;
    if (Start(ranks[i], options)) continue;
    std::fprintf(stderr, "mlxcommctl: cannot start rank %u: %s\n", i, std::strerror(errno));
    launch.FailWith(kExitFailed);
    launch.EndAll();
    break;
  }
  return launch.Run();
}

}  // namespace mlxcomm::ctl

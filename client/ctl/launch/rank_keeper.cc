#include "client/ctl/launch/rank_keeper.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "client/ctl/cli/verbs.h"
#include "client/ctl/launch/child_process.h"
#include "client/ctl/launch/rank_host.h"

namespace mlxcomm::ctl {
namespace {

// A pipe takes it atomically.
struct KeptGroup {
  pid_t group = 0;
  int is_there = 0;
};

// False if the other end is gone.
bool Read(KeptGroup& kept) {
  std::size_t got = 0;
  while (got < sizeof kept) {
    const ssize_t more =
        ::read(STDIN_FILENO, reinterpret_cast<char*>(&kept) + got, sizeof kept - got);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return false;
    got += static_cast<std::size_t>(more);
  }
  return true;
}

void EndAll(std::vector<pid_t>& groups) {
  for (const pid_t group : groups) ::kill(-group, SIGTERM);
  const auto until = Clock::now() + kRankPatience;
  while (!groups.empty() && Clock::now() < until) {
    ::poll(nullptr, 0, 50);
    std::erase_if(groups, [](pid_t group) { return ::kill(-group, 0) != 0; });
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
}

int RunRankKeeper() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_IGN);
  // Readers of these must not wait for the keeper.
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) ::close(output);
  std::vector<pid_t> groups;
  for (KeptGroup kept; Read(kept);) {
    if (kept.group <= 1) continue;  // kill(2) would signal all processes.
    std::erase(groups, kept.group);
    if (kept.is_there != 0) groups.push_back(kept.group);
  }
  EndAll(groups);
  return 0;
}

}  // namespace

bool RankKeeper::Start(const std::string& own_path) {
  FileDescriptor its_input, to;
  if (!MakePipe(its_input, to)) return false;
  pid_ = ForkGroup();
  if (pid_ == 0) {
    Become({own_path, "rank-keeper"}, its_input.get(), STDERR_FILENO, STDERR_FILENO);
  }
  if (pid_ <= 0) return false;
  to_ = std::move(to);
  return true;
}

RankKeeper::~RankKeeper() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  to_.Reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void RankKeeper::Notify(pid_t group, bool is_there) {
  const KeptGroup kept{group, is_there ? 1 : 0};
  ssize_t written = -1;
  do {
    written = ::write(to_.get(), &kept, sizeof kept);
  } while (written < 0 && errno == EINTR);
  if (written == sizeof kept || std::exchange(has_failed_, true)) return;
  std::fprintf(stderr, "mlxcommctl: if this process is killed, its ranks continue: %s\n",
               std::strerror(errno));
}

Run AddRankKeeper(CLI::App&, const Invocation&) { return RunRankKeeper; }

}  // namespace mlxcomm::ctl

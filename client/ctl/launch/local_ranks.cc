#include "client/ctl/launch/local_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "client/ctl/cli/embedded.h"
#include "client/ctl/launch/child_process.h"
#include "client/ctl/launch/launch_frames.h"
#include "client/ctl/launch/rank_command.h"

namespace mlxcomm::ctl {
namespace {

constexpr int kReadsMax = 16;  // Per rank and turn, so that one cannot starve the others.

// Puts a `sitecustomize` first on PYTHONPATH: a Python with MLX but without mlxcomm then uses MLX's
// MPI backend, instead of giving each rank a group of one.
std::string AddPythonFolder(RankCommand& command) {
  const std::string wanted = ValueForRanks(command, "MLXCOMM_INSTALL");
  const bool is_wanted = !wanted.empty() && wanted != "0" && wanted != "none";
  if (!is_wanted || ValueForRanks(command, "MLX_MPI_LIBNAME").empty()) return {};
  std::error_code failure;
  std::string folder =
      (std::filesystem::temp_directory_path(failure) / "mlxcomm-python-XXXXXX").string();
  if (failure || ::mkdtemp(folder.data()) == nullptr) return {};
  std::ofstream(folder + "/sitecustomize.py") << kPythonStartup << kForeignPython;
  const std::string others = ValueForRanks(command, "PYTHONPATH");
  command.environment.emplace_back("PYTHONPATH", others.empty() ? folder : folder + ":" + others);
  return folder;
}

}  // namespace

LocalRanks::LocalRanks(const std::vector<unsigned>& numbers, Input input,
                       const std::vector<unsigned>& readers, RankListener& listener)
    : input_(input), listener_(listener), ranks_(numbers.size()) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ranks_[i].number = numbers[i];
    ranks_[i].reads = std::ranges::find(readers, numbers[i]) != readers.end();
  }
}

LocalRanks::~LocalRanks() {
  std::error_code ignored;
  if (!python_folder_.empty()) std::filesystem::remove_all(python_folder_, ignored);
}

void LocalRanks::SetCommand(RankCommand command, std::string own_path) {
  command_ = std::move(command);
  python_folder_ = AddPythonFolder(command_);
  own_path_ = std::move(own_path);
}

// No rank inherits a terminal: its process group is in the background, where reading would stop it.
void LocalRanks::ChooseInput(const Rank& rank, int in) const {
  if (rank.reads && input_ == Input::kGiven) {
    ::dup2(in, STDIN_FILENO);
    return;
  }
  if (rank.reads && ::isatty(STDIN_FILENO) == 0) return;
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0) return;
  ::dup2(nothing, STDIN_FILENO);
  ::close(nothing);
}

void LocalRanks::BecomeRank(const Rank& rank, int in, int out, int error) const {
  ChooseInput(rank, in);
  ::dup2(error, STDERR_FILENO);
  // If another launcher's variables were left, MLX would use its own ring.
  for (const char* const name : {"MLX_HOSTFILE", "MLX_IBV_DEVICES", "MLX_JACCL_COORDINATOR",
                                 "JACCL_RANK", "JACCL_IBV_DEVICES", "JACCL_COORDINATOR"}) {
    ::unsetenv(name);
  }
  for (const auto& [name, value] : command_.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("MLX_RANK", std::to_string(rank.number).c_str(), 1);
  if (!command_.directory.empty() && ::chdir(command_.directory.c_str()) != 0 &&
      command_.directory_needed) {
    std::fprintf(stderr, "mlxcommctl: cannot change to directory %s: %s\n",
                 command_.directory.c_str(), std::strerror(errno));
    ::_exit(1);
  }
  Become(command_.command, -1, out, STDERR_FILENO);
}

bool LocalRanks::Start(Rank& rank) {
  FileDescriptor its_input, its_output, its_error;
  FileDescriptor input, output, error;
  const bool gives = rank.reads && input_ == Input::kGiven;
  if ((gives && !MakePipe(its_input, input)) || !MakePipe(output, its_output) ||
      !MakePipe(error, its_error)) {
    return false;
  }
  rank.pid = ForkGroup();
  if (rank.pid == 0) BecomeRank(rank, its_input.get(), its_output.get(), its_error.get());
  if (rank.pid < 0) return false;
  rank.group_left = true;
  keeper_.Add(rank.pid);
  for (const FileDescriptor* const end : {&input, &output, &error}) {
    if (end->valid()) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  rank.output = {std::move(output), std::move(error)};
  rank.input = std::move(input);
  rank.took_at = Clock::now();
  return true;
}

void LocalRanks::Begin() {
  begun_ = true;
  watch_.Begin(ValueOf(command_, "MLXCOMM_JOB"), ValueOf(command_, "MLXCOMM_SOCKET"));
  if (ValueOf(command_, "MLX_WORLD_SIZE") != "1") check_joined_at_ = Clock::now() + kJoinPatience;
  if (!keeper_.Start(own_path_)) return StartFailed(ranks_.front());
  for (Rank& rank : ranks_) {
    if (killing_) return;  // A rank could not be started, and the listener ended the others.
    if (!Start(rank)) StartFailed(rank);
  }
}

void LocalRanks::StartFailed(Rank& rank) {
  const std::string why =
      std::string("mlxcommctl: cannot be started: ") + std::strerror(errno) + "\n";
  rank.ended = true;
  listener_.OnOutput(rank.number, 1, why);
  v1::LaunchEnded end;
  end.set_rank(rank.number);
  end.set_exit_code(1);
  listener_.OnEnded(end);
}

void LocalRanks::AddTo(std::vector<pollfd>& waited) {
  for (const Rank& rank : ranks_) {
    for (const FileDescriptor& end : rank.output) {
      if (end.valid() && !hold_) waited.push_back({end.get(), POLLIN, 0});
    }
    if (rank.input.valid() && !rank.input_left.empty()) {
      waited.push_back({rank.input.get(), POLLOUT, 0});
    }
  }
}

void LocalRanks::ReadOutput(Rank& rank, int stream) {
  FileDescriptor& end = rank.output[static_cast<std::size_t>(stream)];
  for (int reads = 0; end.valid() && reads < kReadsMax; ++reads) {
    std::array<char, 8192> bytes;
    const ssize_t got = ::read(end.get(), bytes.data(), bytes.size());
    if (got > 0) {
      listener_.OnOutput(rank.number, stream, {bytes.data(), static_cast<std::size_t>(got)});
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      listener_.OnOutput(rank.number, stream, {});
      end.Reset();
    } else {
      return;
    }
  }
}

void LocalRanks::GiveInput(std::string_view bytes) {
  if (bytes.empty()) input_ended_ = true;
  input_given_ += bytes.size();
  for (Rank& rank : ranks_) {
    // Pipes exist only once the ranks have begun.
    if (rank.reads && (rank.input.valid() || !begun_)) rank.input_left.append(bytes);
  }
  WriteInput();
}

void LocalRanks::WriteInput() {
  if (!begun_ || input_ != Input::kGiven) return;
  for (Rank& rank : ranks_) WriteInput(rank);
  ReportTaken();
}

// Returns whether this rank's unread input keeps others from getting more. Whether ranks on other
// hosts wait for input is unknown.
bool LocalRanks::HoldsUp(const Rank& rank) const {
  if (rank.input_left.size() < kLaunchInputBytesMax) return false;
  const auto reads = [&](const Rank& other) { return &other != &rank && other.input.valid(); };
  const bool alone = std::ranges::none_of(ranks_, reads);
  return alone || std::ranges::any_of(ranks_, [&](const Rank& other) {
           return reads(other) && other.input_left.empty();
         });
}

void LocalRanks::WriteInput(Rank& rank) {
  while (rank.input.valid() && !rank.input_left.empty()) {
    const ssize_t written =
        ::write(rank.input.get(), rank.input_left.data(), rank.input_left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written < 0) {
      rank.input.Reset();
      break;
    }
    rank.took_at = Clock::now();
    rank.input_left.erase(0, static_cast<std::size_t>(written));
  }
  if (rank.input.valid() && rank.number != 0 && HoldsUp(rank) &&
      Clock::now() - rank.took_at > kInputPatience) {
    rank.input.Reset();
    listener_.OnOutput(rank.number, 1,
                       "mlxcommctl: this rank has read no input for " +
                           std::to_string(kInputPatience.count()) + " s and gets no more\n");
  }
  if (!rank.input.valid()) rank.input_left.clear();
  if (rank.input_left.empty()) {
    rank.took_at = Clock::now();
    if (input_ended_) rank.input.Reset();
  }
}

// Input for a rank that no longer reads counts as read.
void LocalRanks::ReportTaken() {
  std::size_t left = 0;
  for (const Rank& rank : ranks_) left = std::max(left, rank.input_left.size());
  const std::size_t taken = input_given_ - left;
  if (taken <= input_reported_) return;
  listener_.OnInputTaken(*this, taken - input_reported_);
  input_reported_ = taken;
}

void LocalRanks::Reap(Rank& rank) {
  int status = 0;
  if (rank.ended && rank.group_left && ::kill(-rank.pid, 0) != 0) {
    rank.group_left = false;
    keeper_.Remove(rank.pid);
  }
  if (!rank.alive() || ::waitpid(rank.pid, &status, WNOHANG) != rank.pid) return;
  rank.ended = true;
  // Report its remaining output, at most what the pipes hold, before it ends.
  for (int stream = 0; stream < 2; ++stream) ReadOutput(rank, stream);
  v1::LaunchEnded end;
  end.set_rank(rank.number);
  end.set_pid(static_cast<std::uint64_t>(rank.pid));
  if (WIFSIGNALED(status)) {
    end.set_signal(static_cast<std::uint32_t>(WTERMSIG(status)));
  } else {
    end.set_exit_code(static_cast<std::uint32_t>(WEXITSTATUS(status)));
  }
  listener_.OnEnded(end);
}

void LocalRanks::Turn() {
  WriteInput();
  for (Rank& rank : ranks_) {
    for (int stream = 0; stream < 2 && !hold_; ++stream) ReadOutput(rank, stream);
  }
  for (Rank& rank : ranks_) Reap(rank);
  if (AnyAlive()) {
    last_alive_ = Clock::now();
    watch_.Turn(last_alive_);
    CheckJoined();
  }
  if (job_failed_ && !killing_ && !AnyAlive()) End(SIGTERM);
  if (killing_ && Clock::now() >= kill_at_) SignalAll(SIGKILL);
  if (begun_ && !reported_ && HaveEnded()) ReportOutcome();
}

void LocalRanks::CheckJoined() {
  if (killing_ || Clock::now() < check_joined_at_) return;
  check_joined_at_ = Clock::time_point::max();
  std::vector<unsigned> ranks;
  for (const Rank& rank : ranks_) {
    if (rank.alive()) ranks.push_back(rank.number);
  }
  ranks = watch_.NotJoined(ranks);
  if (ranks.empty()) return;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (const unsigned rank : ranks)
    text += (rank == ranks.front() ? "" : ", ") + std::to_string(rank);
  text += (ranks.size() == 1 ? " has" : " have") + std::string(" not joined job ") +
          ValueOf(command_, "MLXCOMM_JOB") + " after " + std::to_string(kJoinPatience.count()) +
          " s";
  const std::string lacks = WhatTheyLack(ranks);
  listener_.OnNotice(text + (lacks.empty() ? "" : ": " + lacks));
}

// If a rank's script has exec'd a Python by now, asks that one. The ranks' output waits for the
// answer.
std::string LocalRanks::WhatTheyLack(const std::vector<unsigned>& ranks) {
  if (IsPython(command_.command[0])) return AskPython(command_, std::chrono::seconds(2)).lacks;
  for (const Rank& rank : ranks_) {
    if (std::ranges::count(ranks, rank.number) == 0 || !rank.alive()) continue;
    RankCommand become = command_;
    become.command = CommandOf(rank.pid);
    if (!become.command.empty() && IsPython(become.command[0])) {
      return seen_lacks_ = AskPython(become, std::chrono::seconds(2)).lacks;
    }
    if (HasLoadedMlxAlone(rank.pid)) {
      return seen_lacks_ =
                 "the program has loaded MLX without mlxcomm: call mlxcomm.install() in it, or "
                 "pass backend=\"mpi\" to mx.distributed.init";
    }
  }
  return {};
}

void LocalRanks::ReportOutcome() {
  reported_ = true;
  v1::LaunchOutcome outcome = watch_.Outcome();
  const bool is_alone =
      !outcome.joined() && !killing_ && ValueOf(command_, "MLX_WORLD_SIZE") != "1";
  const RankPython python = is_alone ? AskPython(command_, std::chrono::seconds(10)) : RankPython();
  outcome.set_loads_mlxcomm(python.loads_mlxcomm);
  outcome.set_why_alone(is_alone && python.lacks.empty() ? seen_lacks_ : python.lacks);
  listener_.OnOutcome(outcome);
}

void LocalRanks::End(int signal) {
  SignalAll(signal);
  if (std::exchange(killing_, true)) return;
  kill_at_ = Clock::now() + kRankPatience;
}

// The number of an empty group may be reused.
void LocalRanks::SignalAll(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.group_left) ::kill(-rank.pid, signal);
  }
}

bool LocalRanks::AnyAlive() const { return std::ranges::any_of(ranks_, &Rank::alive); }

// Bounded, because orphans that nothing reaps stay in their group forever.
bool LocalRanks::LeftBehind() const {
  return killing_ && Clock::now() < kill_at_ + kLastWords &&
         std::ranges::any_of(ranks_, &Rank::group_left);
}

// Does not wait for the ranks' own children unless the job failed.
bool LocalRanks::HaveEnded() const {
  const bool any_open = std::ranges::any_of(ranks_, &Rank::open);
  return !AnyAlive() && !LeftBehind() && !(any_open && Clock::now() < last_alive_ + kLastWords);
}

}  // namespace mlxcomm::ctl

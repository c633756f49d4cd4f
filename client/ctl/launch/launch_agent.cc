// mlxcommctl launch-agent, which `launch` starts on another host by ssh. It reads frames from
// standard input and writes them to standard output (launch.proto). When the connection ends, so do
// the ranks and their children.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/verbs.h"
#include "client/ctl/launch/launch_frames.h"
#include "client/ctl/launch/local_ranks.h"
#include "client/ctl/launch/rank_command.h"
#include "proto/types/version.h"

namespace mlxcomm::ctl {
namespace {

// Beyond this, the ranks' output waits in their pipes.
constexpr std::size_t kUnsentBytesMax = std::size_t{1} << 20;
constexpr auto kLastFramesPatience = std::chrono::seconds(5);

volatile sig_atomic_t g_agent_signal = 0;

class Agent : public RankListener {
 public:
  explicit Agent(std::string own_path) : own_path_(std::move(own_path)) {}

  int Run() {
    v1::LaunchFrame hello;
    hello.mutable_hello()->set_version(kSoftwareVersion);
    hello.mutable_hello()->set_pid(static_cast<std::uint64_t>(::getpid()));
    writer_.Begin();
    writer_.Add(hello);
    while (connected_ || (ranks_ && !ranks_->done())) {
      Wait();
      Read();
      if (ranks_) ranks_->HoldOutput(connected_ && writer_.pending() > kUnsentBytesMax);
      if (ranks_) ranks_->Turn();
      if (g_agent_signal != 0) Lose();
      Write();
      if (ranks_ && ranks_->done()) break;
    }
    const auto until = Clock::now() + kLastFramesPatience;
    while (connected_ && writer_.pending() > 0 && Clock::now() < until) {
      Wait();
      Write();
    }
    return failed_ ? kExitFailed : 0;
  }

  void OnOutput(unsigned rank, int stream, std::string_view bytes) override {
    if (!connected_) return;
    v1::LaunchFrame frame;
    frame.mutable_output()->set_rank(rank);
    frame.mutable_output()->set_error(stream == 1);
    frame.mutable_output()->set_data(bytes.data(), bytes.size());
    writer_.Add(frame);
  }
  void OnEnded(const v1::LaunchEnded& end) override {
    v1::LaunchFrame frame;
    *frame.mutable_ended() = end;
    writer_.Add(frame);
  }
  void OnOutcome(const v1::LaunchOutcome& outcome) override {
    v1::LaunchFrame frame;
    *frame.mutable_outcome() = outcome;
    writer_.Add(frame);
  }
  void OnNotice(const std::string& text) override {
    v1::LaunchFrame frame;
    frame.set_notice(text);
    writer_.Add(frame);
  }
  void OnInputTaken(const RankHost&, std::size_t bytes) override {
    v1::LaunchFrame frame;
    frame.set_input_taken(bytes);
    writer_.Add(frame);
  }
  void OnHostText(const std::string&, const std::string&) override {}
  void OnHostFailed(const std::string&, const std::string&, int) override {}

 private:
  void Wait() {
    std::vector<pollfd> waited;
    if (connected_) waited.push_back({STDIN_FILENO, POLLIN, 0});
    if (connected_ && writer_.pending() > 0) waited.push_back({STDOUT_FILENO, POLLOUT, 0});
    if (ranks_) ranks_->AddTo(waited);
    // Short, because nothing signals the end of a child that has closed its pipes.
    ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
  }
  void Write() {
    if (connected_ && !writer_.WriteTo(STDOUT_FILENO)) Lose();
  }
  void Read() {
    if (!connected_) return;
    const bool open = reader_.ReadFrom(STDIN_FILENO);
    for (v1::LaunchFrame frame; reader_.Take(frame);) Take(frame);
    if (!reader_.error().empty()) Refuse(reader_.error());
    if (!open) Lose();
  }
  // Ends the ranks, because launch is gone.
  void Lose() {
    connected_ = false;
    if (ranks_ && !std::exchange(ending_, true)) ranks_->End(SIGTERM);
  }
  void Refuse(const std::string& what) {
    std::fprintf(stderr,
                 "mlxcommctl: launch-agent: %s: only `mlxcommctl launch --hosts` may run it\n",
                 what.c_str());
    failed_ = true;
    Lose();
  }
  void Take(const v1::LaunchFrame& frame) {
    if (frame.what_case() == v1::LaunchFrame::kBegin && !ranks_) return Begin(frame.begin());
    if (!ranks_) return Refuse("the first frame is not a beginning");
    if (frame.what_case() == v1::LaunchFrame::kStart && !started_) {
      started_ = true;
      return ranks_->Begin();
    }
    if (frame.what_case() == v1::LaunchFrame::kJobFailed) return ranks_->JobFailed();
    if (frame.what_case() == v1::LaunchFrame::kInput)
      return ranks_->GiveInput(frame.input().data());
    if (frame.what_case() == v1::LaunchFrame::kEndBySignal) {
      const auto signal = static_cast<int>(frame.end_by_signal());
      const bool known =
          signal == SIGINT || signal == SIGHUP || signal == SIGQUIT || signal == SIGKILL;
      return ranks_->End(known ? signal : SIGTERM);
    }
    Refuse("unknown frame");
  }
  void Begin(const v1::LaunchBegin& begin) {
    if (begin.command_size() == 0 || begin.ranks_size() == 0)
      return Refuse("a beginning without ranks");
    RankCommand command;
    command.command.assign(begin.command().begin(), begin.command().end());
    AddMpiLibrary(own_path_, command.environment);
    for (const v1::LaunchVariable& variable : begin.environment()) {
      command.environment.emplace_back(variable.name(), variable.value());
    }
    command.directory = begin.directory();
    command.directory_needed = begin.directory_needed();
    ranks_.emplace(std::vector<unsigned>(begin.ranks().begin(), begin.ranks().end()),
                   LocalRanks::Input::kGiven,
                   std::vector<unsigned>(begin.readers().begin(), begin.readers().end()), *this);
    v1::LaunchFrame ready;
    ready.mutable_ready()->set_problem(WhyNotRun(command));
    writer_.Add(ready);
    ranks_->SetCommand(std::move(command), own_path_);
  }

  const std::string own_path_;
  FrameReader reader_{/*noise_first=*/false};
  FrameWriter writer_;
  std::optional<LocalRanks> ranks_;
  bool connected_ = true;
  bool started_ = false;
  bool ending_ = false;
  bool failed_ = false;
};

int RunLaunchAgent(const std::string& called) {
  struct sigaction action{};
  action.sa_handler = [](int number) { g_agent_signal = number; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  for (const int end : {STDIN_FILENO, STDOUT_FILENO}) {
    ::fcntl(end, F_SETFL, ::fcntl(end, F_GETFL) | O_NONBLOCK);
  }
  const std::string own_path = OwnPath(called);
  AddOwnFolderToPath(own_path);
  Agent agent(own_path);
  return agent.Run();
}

}  // namespace

Run AddLaunchAgent(CLI::App&, const Invocation& invocation) {
  return [called = invocation.called] { return RunLaunchAgent(called); };
}

}  // namespace mlxcomm::ctl

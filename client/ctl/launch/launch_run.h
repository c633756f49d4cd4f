// The loop of `launch`: starts the ranks once every host is ready, passes output, input and signals, and
// ends the job.
//
//   hosts ready ─▶ running ─a rank fails─▶ grace ─▶ SIGTERM ─kRankPatience─▶ SIGKILL ─▶ summary
//                                  └─ keep_going: the others run to their end ─▶ summary
//
// Ranks begin when every host has answered, so that a host that cannot be reached costs the others nothing.
//
// Owner: RunLaunch. Thread: main. Memory: rank_lines.h, and how each rank ended.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/launch/failure_summary.h"
#include "client/ctl/launch/rank_host.h"
#include "client/ctl/launch/rank_lines.h"

namespace mlxcomm::ctl {

class LaunchRun : public RankListener {
 public:
  struct Settings {
    std::string job;
    std::size_t size = 0;
    bool prefix = true;
    bool verbose = false;
    bool keep_going = false;
    bool is_python = false;  // What the ranks run: it is to join the job.
    std::chrono::nanoseconds grace{};
  };

  explicit LaunchRun(Settings settings);

  // `name` is empty where there is one host. `gets_input`: this process's input goes to it.
  void Add(std::unique_ptr<RankHost> host, const std::string& name,
           const std::vector<unsigned>& ranks, bool gets_input);
  // The exit code.
  int Run();
  // A rank has, on standard output.
  bool has_printed() const { return has_printed_; }

  void OnOutput(unsigned rank, int stream, std::string_view bytes) override;
  void OnEnded(const v1::LaunchEnded& end) override;
  void OnOutcome(const v1::LaunchOutcome& outcome) override;
  void OnInputTaken(const RankHost& host, std::size_t bytes) override;
  void OnNotice(const std::string& text) override;
  void OnHostText(const std::string& host, const std::string& line) override;
  void OnHostFailed(const std::string& host, const std::string& why, int exit_code) override;

 private:
  struct Reader {
    RankHost* host;
    std::size_t under_way = 0;  // Given, and not yet taken by its ranks.
  };

  // Waits for every host, so that all hosts that cannot be reached are reported together.
  void BeginIfReady();
  void Wait();
  void Write();
  // Until it has been read, however slowly, or a signal comes.
  void ShowTheRest();
  void PassInput();
  void Forward();
  void EndAllOnce();
  void EndAll(int signal);
  void FailWith(int code);
  void Summarise();
  void ReportThatNoneJoined();
  void Say(const std::string& text) { lines_.Say("mlxcommctl: " + text); }

  const Settings settings_;
  RankLines lines_;
  const bool shows_prompts_;
  std::vector<std::unique_ptr<RankHost>> hosts_;
  std::vector<std::string> host_of_;  // By rank.
  std::vector<Reader> readers_;       // For our input, where no rank has it itself.
  std::vector<RankFate> fates_;
  v1::LaunchOutcome outcome_;  // The outcome of all hosts together.
  bool heard_outcome_ = false;
  bool job_failed_ = false;         // A rank has failed by itself.
  bool rank_failed_first_ = false;  // Before anything else made the job fail.
  bool reported_not_joined_ = false;
  int exit_code_ = 0;
  bool has_printed_ = false;
  bool begun_ = false;
  bool ending_ = false;
  std::optional<Clock::time_point> end_at_;  // When the grace is over.
};

// So that Run sees them. Signals that nohup, or a shell with `&`, has us ignore stay ignored.
void HandleLaunchSignals();

}  // namespace mlxcomm::ctl

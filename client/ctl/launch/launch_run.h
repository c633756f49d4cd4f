// The loop of `launch`: starts the ranks once every host is ready, passes output, input and
// signals, and ends the job.
//
//   hosts ready ─▶ running ─a rank fails─▶ grace ─▶ SIGTERM ─kRankPatience─▶ SIGKILL ─▶ summary
//                                  └─ keep_going: the others run to their end ─▶ summary
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
    bool is_python = false;  // The ranks run Python, and should join the job.
    std::chrono::nanoseconds grace{};
  };

  explicit LaunchRun(Settings settings);

  // `name` is empty if there is only one host. `gets_input`: it gets this process's input.
  void Add(std::unique_ptr<RankHost> host, const std::string& name,
           const std::vector<unsigned>& ranks, bool gets_input);
  // Returns the exit code.
  int Run();
  // Returns whether a rank printed on standard output.
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
    std::size_t under_way = 0;  // Bytes sent and not yet read by its ranks.
  };

  // Waits for every host, so that all unreachable ones are reported together, before any rank
  // starts.
  void BeginIfReady();
  void Wait();
  void Write();
  // Writes until the reader has all output, or a signal comes.
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
  std::vector<std::string> host_of_;  // Indexed by rank.
  std::vector<Reader> readers_;       // Unless a rank inherits our input.
  std::vector<RankFate> fates_;
  v1::LaunchOutcome outcome_;  // Merged from all hosts.
  bool heard_outcome_ = false;
  bool job_failed_ = false;         // A rank has failed.
  bool rank_failed_first_ = false;  // Nothing else made the job fail before.
  bool reported_not_joined_ = false;
  int exit_code_ = 0;
  bool has_printed_ = false;
  bool begun_ = false;
  bool ending_ = false;
  std::optional<Clock::time_point> end_at_;  // When the grace is over.
};

// Run then forwards signals, except those that nohup or a shell's `&` made us ignore.
void HandleLaunchSignals();

}  // namespace mlxcomm::ctl

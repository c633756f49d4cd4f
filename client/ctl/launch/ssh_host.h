// Ranks on another host: ssh starts an agent there (launch_agent.cc), and exchanges frames with it.
// ssh never prompts (BatchMode), and is outside the terminal's process group, so that Ctrl-C
// reaches the ranks through the agent. When the connection ends, the agent ends its ranks.
//
// Owner: launch. Thread: main. Memory: rank_host.h, launch_frames.h.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/ctl/launch/launch_frames.h"
#include "client/ctl/launch/rank_host.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::ctl {

// Limits how long ssh may take to start the agent, and the agent to check the command. ssh's own
// timeouts are shorter.
inline constexpr auto kHelloPatience = std::chrono::seconds(30);

class SshHost : public RankHost {
 public:
  SshHost(std::string name, std::vector<unsigned> ranks, std::vector<unsigned> readers,
          RankCommand command, RankListener& listener)
      : name_(std::move(name)),
        ranks_(std::move(ranks)),
        readers_(std::move(readers)),
        running_(ranks_),
        command_(std::move(command)),
        listener_(listener) {}
  ~SshHost() override;

  // `ssh`: see SshCommand. RESOURCE_EXHAUSTED: no pipe or process for it.
  absl::Status Connect(const std::string& ssh, const std::string& own_path,
                       std::chrono::seconds patience = kHelloPatience);

  bool ready() const override { return ready_; }
  bool failed() const override { return failed_; }
  void Begin() override;
  void AddTo(std::vector<pollfd>& waited) override;
  void Turn() override;
  void JobFailed() override;
  void End(int signal) override;
  bool done() const override { return reaped_ && !from_.valid(); }
  void GiveInput(std::string_view bytes) override;
  void HoldOutput(bool hold) override { hold_ = hold; }

 private:
  void ReadFrames();
  void ReadText();
  void ShowText();
  void Take(const v1::LaunchFrame& frame);
  void SendCommand();
  void TakeEnd(v1::LaunchEnded ended);
  void TakeOutcome(v1::LaunchOutcome outcome);
  void Write();
  void Reap();
  void Fail(const std::string& why, int exit_code = 1);
  void CheckDeadlines();
  bool Has(unsigned rank) const;

  const std::string name_;
  const std::vector<unsigned> ranks_;
  const std::vector<unsigned> readers_;  // Get the input.
  std::vector<unsigned> running_;        // Their end was not reported yet.
  const RankCommand command_;
  RankListener& listener_;
  std::string ssh_;
  FrameReader reader_{/*noise_first=*/true};
  FrameWriter writer_;
  pid_t pid_ = -1;
  FileDescriptor to_;
  FileDescriptor from_;
  FileDescriptor text_;
  std::string text_left_;
  std::string last_text_;  // Explains why ssh ended; kept until the agent answers.
  bool has_hello_ = false;
  bool ready_ = false;  // The agent has checked the command.
  bool begun_ = false;
  bool ending_ = false;
  bool hold_ = false;
  bool failed_ = false;
  bool reaped_ = false;
  int status_ = 0;
  std::chrono::seconds patience_{};
  Clock::time_point hello_by_;
  Clock::time_point gone_by_ = Clock::time_point::max();
};

}  // namespace mlxcomm::ctl

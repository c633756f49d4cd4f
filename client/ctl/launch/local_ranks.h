// The ranks of a job on this machine. Each is a process group, which is ended as a whole, at worst
// by rank_keeper.h.
//
// Owner: launch, or the agent on another host. Thread: main. Memory: rank_host.h; for each rank
// that reads, unread input, which the caller bounds by OnInputTaken.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/launch/job_watch.h"
#include "client/ctl/launch/rank_host.h"
#include "client/ctl/launch/rank_keeper.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::ctl {

class LocalRanks : public RankHost {
 public:
  // Ranks that read inherit this process's input, or get GiveInput's.
  enum class Input { kInherited, kGiven };

  LocalRanks(const std::vector<unsigned>& numbers, Input input,
             const std::vector<unsigned>& readers, RankListener& listener);
  ~LocalRanks() override;

  // Must be called before Begin. `own_path` is mlxcommctl's (rank_keeper.h).
  void SetCommand(RankCommand command, std::string own_path);

  bool ready() const override { return true; }
  bool failed() const override { return false; }
  void Begin() override;
  void AddTo(std::vector<pollfd>& waited) override;
  void Turn() override;
  void JobFailed() override { job_failed_ = true; }
  void End(int signal) override;
  bool done() const override { return begun_ ? reported_ : killing_; }
  void GiveInput(std::string_view bytes) override;
  void HoldOutput(bool hold) override { hold_ = hold; }

 private:
  struct Rank {
    unsigned number = 0;
    pid_t pid = -1;
    std::array<FileDescriptor, 2> output;  // Standard output and error.
    bool reads = false;
    FileDescriptor input;  // GiveInput writes to it; not valid: it takes no more.
    std::string input_left;
    Clock::time_point took_at;
    bool ended = false;
    bool group_left = false;  // Its group still has processes.

    bool alive() const { return pid > 0 && !ended; }
    bool open() const { return output[0].valid() || output[1].valid(); }
  };

  bool Start(Rank& rank);
  void StartFailed(Rank& rank);
  [[noreturn]] void BecomeRank(const Rank& rank, int in, int out, int error) const;
  void ChooseInput(const Rank& rank, int in) const;
  void ReadOutput(Rank& rank, int stream);
  void WriteInput();
  void WriteInput(Rank& rank);
  void ReportTaken();
  std::string WhatTheyLack(const std::vector<unsigned>& ranks);
  bool HoldsUp(const Rank& rank) const;
  void Reap(Rank& rank);
  bool AnyAlive() const;
  bool HaveEnded() const;
  void CheckJoined();
  void ReportOutcome();
  bool LeftBehind() const;
  void SignalAll(int signal);

  RankCommand command_;
  std::string python_folder_;  // Temporary.
  std::string own_path_;
  const Input input_;
  RankListener& listener_;
  std::vector<Rank> ranks_;
  RankKeeper keeper_;
  JobWatch watch_;
  Clock::time_point check_joined_at_ = Clock::time_point::max();
  std::string seen_lacks_;  // Learned from processes of ranks that had not joined.
  bool begun_ = false;
  bool reported_ = false;  // The outcome.
  bool hold_ = false;
  std::size_t input_given_ = 0;
  std::size_t input_reported_ = 0;  // Reported as taken.
  bool input_ended_ = false;
  bool job_failed_ = false;
  bool killing_ = false;
  Clock::time_point kill_at_;
  Clock::time_point last_alive_ = Clock::now();
};

}  // namespace mlxcomm::ctl

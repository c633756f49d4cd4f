// How the job of a host's ranks goes, as the daemon there reports it. Ranks may start a private daemon,
// which would end with the last of them and take along why they failed: a session that stays holds it.
//
//   Turn() ─no daemon yet: tries again─▶ session ─ranks have ended─▶ Outcome() ─▶ the daemon may end
//
// Owner: LocalRanks. Thread: main; Turn blocks for at most 1 s, the questions for 3 s. Memory: one answer.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/launch/rank_host.h"

namespace mlxcomm::ctl {

class JobWatch {
 public:
  static constexpr std::chrono::milliseconds kPatience{1000};

  // `socket_path` empty: as every client finds it.
  void Begin(std::string job, std::string socket_path);
  void Turn(Clock::time_point now);

  // Which of these ranks have not joined the job yet, as far as is known.
  std::vector<unsigned> NotJoined(const std::vector<unsigned>& ranks);
  // After the ranks have ended: asks until the daemon has noticed, too.
  v1::LaunchOutcome Outcome();

 private:
  bool Ask(v1::StatusReply& status);
  bool DaemonWasStarted() const;

  std::string job_;
  std::string socket_path_;
  Clock::time_point begun_;
  Clock::time_point try_at_;
  std::time_t begun_unix_ = 0;
  bool joined_ = false;  // It was seen to run.
  std::unique_ptr<LauncherSession> session_;
};

}  // namespace mlxcomm::ctl

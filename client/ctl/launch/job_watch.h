// Asks the daemon about the job of a host's ranks. A private daemon would end with the last rank,
// and with it the reason of a failure, so a session keeps it running until Outcome has read it.
//
//   Turn() ─no daemon yet: retries─▶ session ─ranks have ended─▶ Outcome() ─▶ the daemon may end
//
// Owner: LocalRanks. Thread: main; Turn blocks for at most 1 s, other calls for 3 s. Memory: one
// answer.
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

  // `socket_path` empty: the default.
  void Begin(std::string job, std::string socket_path);
  void Turn(Clock::time_point now);

  // Returns those of the ranks that have not joined the job yet.
  std::vector<unsigned> NotJoined(const std::vector<unsigned>& ranks);
  // After the ranks have ended: polls until the daemon has noticed.
  v1::LaunchOutcome Outcome();

 private:
  bool Ask(v1::StatusReply& status);
  bool DaemonWasStarted() const;

  std::string job_;
  std::string socket_path_;
  Clock::time_point begun_;
  Clock::time_point try_at_;
  std::time_t begun_unix_ = 0;
  bool joined_ = false;  // A rank has.
  std::unique_ptr<LauncherSession> session_;
};

}  // namespace mlxcomm::ctl

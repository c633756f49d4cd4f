// Where ranks of a job run, as `launch` sees it: here (local_ranks.h) or on a host that ssh
// reaches (ssh_host.h).
//
//   connecting --ready()--> Begin() --> running --all ranks have ended--> done()
//       '-------------------- End(signal) ----'--------------------------> done()
//
// Nothing here waits: AddTo says what to poll for, Turn does what can be done now.
//
// Owner: launch, or the agent. Thread: main. Memory: of a rank's output and input what pipes hold,
// and launch_frames.h.
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mlxcomm/v1/launch.pb.h"

namespace mlxcomm::ctl {

using Clock = std::chrono::steady_clock;

inline constexpr int kExitNotFound = 127;    // There is no such program or script; as in shells.
inline constexpr unsigned kRanksMax = 4096;  // Of a job.
// When ranks that have not joined their job are reported.
inline constexpr auto kJoinPatience = std::chrono::seconds(10);
// How long a rank may take to end after SIGTERM.
inline constexpr auto kRankPatience = std::chrono::seconds(5);
// How long to wait, once all ranks have ended, for output that another process holds open.
inline constexpr auto kLastWords = std::chrono::seconds(1);
// How long a rank other than 0 may leave input unread while more of it waits: most programs read on
// rank 0 alone, and the others must not hold that up.
inline constexpr auto kInputPatience = std::chrono::seconds(60);

// How a rank is started, the same for all of a job.
struct RankCommand {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // Beside MLX_RANK.
  std::string directory;                                         // Empty: where this process is.
  bool directory_needed = false;
};

class RankHost;

class RankListener {
 public:
  virtual ~RankListener() = default;
  // `bytes` empty: the stream's end. Stream 0 is standard output, 1 standard error.
  virtual void OnOutput(unsigned rank, int stream, std::string_view bytes) = 0;
  virtual void OnEnded(const v1::LaunchEnded& end) = 0;
  // Once all ranks of a host have ended.
  virtual void OnOutcome(const v1::LaunchOutcome& outcome) = 0;
  // By all ranks of the host that read.
  virtual void OnInputTaken(const RankHost& host, std::size_t bytes) = 0;
  // A line of mlxcommctl for the user.
  virtual void OnNotice(const std::string& text) = 0;
  // A line of the host itself; and the reason why it can have no ranks any more.
  virtual void OnHostText(const std::string& host, const std::string& line) = 0;
  virtual void OnHostFailed(const std::string& host, const std::string& why, int exit_code) = 0;
};

class RankHost {
 public:
  virtual ~RankHost() = default;
  virtual bool ready() const = 0;
  virtual bool failed() const = 0;  // The listener knows.
  virtual void Begin() = 0;
  virtual void AddTo(std::vector<pollfd>& waited) = 0;
  virtual void Turn() = 0;
  // A rank of the job has failed, here or elsewhere: what ranks leave behind is ended once they have ended.
  virtual void JobFailed() = 0;
  // Sends the signal to every rank; those that are left get SIGKILL after kRankPatience.
  virtual void End(int signal) = 0;
  virtual bool done() const = 0;
  // For the ranks that read; empty: the end.
  virtual void GiveInput(std::string_view bytes) = 0;
  // While it is held, output stays in the pipes, so that its writers wait.
  virtual void HoldOutput(bool hold) = 0;
};

}  // namespace mlxcomm::ctl

// A host on which ranks of a job run: this one (local_ranks.h), or one that ssh reaches
// (ssh_host.h).
//
//   connecting --ready()--> Begin() --> running --all ranks have ended--> done()
//       '-------------------- End(signal) ----'--------------------------> done()
//
// Nothing here blocks: AddTo adds what to poll, Turn does what is possible now.
//
// Owner: launch, or the agent. Thread: main. Memory: what pipes hold, and launch_frames.h.
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

inline constexpr int kExitNotFound = 127;    // No such program or script, as in shells.
inline constexpr unsigned kRanksMax = 4096;  // Per job.
// After this, ranks that have not joined their job are reported.
inline constexpr auto kJoinPatience = std::chrono::seconds(10);
// The time between SIGTERM and SIGKILL.
inline constexpr auto kRankPatience = std::chrono::seconds(5);
// After all ranks have ended, another process may write their output for this long.
inline constexpr auto kLastWords = std::chrono::seconds(1);
// A rank other than 0 that reads no input for this long gets no more: most programs read only on
// rank 0, and the others must not hold that up.
inline constexpr auto kInputPatience = std::chrono::seconds(60);

// The same for all ranks of a job.
struct RankCommand {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // Set in addition to MLX_RANK.
  std::string directory;                                         // Empty means the current one.
  bool directory_needed = false;
};

class RankHost;

class RankListener {
 public:
  virtual ~RankListener() = default;
  // Stream 0 is standard output, 1 standard error. Empty `bytes`: its end.
  virtual void OnOutput(unsigned rank, int stream, std::string_view bytes) = 0;
  virtual void OnEnded(const v1::LaunchEnded& end) = 0;
  // Once all ranks of a host have ended.
  virtual void OnOutcome(const v1::LaunchOutcome& outcome) = 0;
  // All ranks of the host that read have taken this many more bytes.
  virtual void OnInputTaken(const RankHost& host, std::size_t bytes) = 0;
  // A message of mlxcommctl for the user.
  virtual void OnNotice(const std::string& text) = 0;
  // A line that the host itself printed.
  virtual void OnHostText(const std::string& host, const std::string& line) = 0;
  virtual void OnHostFailed(const std::string& host, const std::string& why, int exit_code) = 0;
};

class RankHost {
 public:
  virtual ~RankHost() = default;
  virtual bool ready() const = 0;
  virtual bool failed() const = 0;  // OnHostFailed was called.
  virtual void Begin() = 0;
  virtual void AddTo(std::vector<pollfd>& waited) = 0;
  virtual void Turn() = 0;
  // A rank has failed, here or elsewhere: once all have ended, their remaining children are ended,
  // too.
  virtual void JobFailed() = 0;
  // Sends the signal to every rank; after kRankPatience the remaining ones get SIGKILL.
  virtual void End(int signal) = 0;
  virtual bool done() const = 0;
  // Passes input to the ranks that read it; empty: end of input.
  virtual void GiveInput(std::string_view bytes) = 0;
  // While held, output stays in the pipes, and ranks that write wait.
  virtual void HoldOutput(bool hold) = 0;
};

}  // namespace mlxcomm::ctl

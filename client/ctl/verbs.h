// The verbs of mlxcommctl: one file each, each returns the exit code.
//
//   0 done   1 the daemon or a rank failed   2 wrong usage   3 no daemon
//
// Owner: main. Thread: main. Memory: plain values.
#pragma once

#include <string>
#include <vector>

namespace mlxcomm::ctl {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;

struct StatusOptions {
  std::string socket_path;
  bool json = false;
};
int RunStatus(const StatusOptions& options);

struct LaunchOptions {
  std::string socket_path;
  std::string job;  // Empty: a name of its own for this launch.
  unsigned ranks = 1;
  std::vector<std::string> command;
};
// Starts local ranks, prefixes their output, forwards signals, ends all when one
// fails; the exit code is that of the first that failed (128 + signal).
int RunLaunch(const LaunchOptions& options);

}  // namespace mlxcomm::ctl

// Launching for other verbs: bench starts its ranks with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

struct LaunchOptions {
  std::string called;  // argv[0].
  std::string socket_path;
  std::string job;    // Empty means named after the script.
  std::string hosts;  // Set at most one of these three; none: this machine.
  std::string hostfile;
  std::string nodes;                       // "all", or names of nodes.
  unsigned ranks = 0;                      // Ranks on each host; 0: the hostfile's, or one.
  unsigned total = 0;                      // 0 means no limit.
  std::uint64_t grace_ns = 5'000'000'000;  // Delays SIGTERM for the other ranks after a failure.
  bool keep_going = false;
  bool copy = false;
  std::vector<std::string> environment;  // "NAME=VALUE".
  std::string input = "all";             // The ranks that get standard input: "all", "0", "none".
  std::string directory;
  std::string python;
  std::string ssh = "ssh";
  std::vector<std::string> command;
  bool prefix = true;  // Lines begin with their rank.
  bool verbose = false;
  bool reports_failure = false;  // Set by a verb with --json whose ranks may have printed nothing.
};
// Returns the exit code of the first rank that failed (128 + signal).
int RunLaunch(const LaunchOptions& options);

}  // namespace mlxcomm::ctl

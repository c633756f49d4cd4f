// The verb launch, for verbs that start ranks as it does: bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

struct LaunchOptions {
  std::string called;  // argv[0].
  std::string socket_path;
  std::string job;    // Empty: after the script, and no other job's.
  std::string hosts;  // One of these three; none: this machine.
  std::string hostfile;
  std::string nodes;                       // "all", or names of nodes.
  unsigned ranks = 0;                      // On each host; 0: as the hostfile says, else one.
  unsigned total = 0;                      // At most, of all hosts; 0: no limit.
  std::uint64_t grace_ns = 5'000'000'000;  // Between a failure and SIGTERM for the other ranks.
  bool keep_going = false;                 // The other ranks are not ended.
  bool copy = false;                       // The script's folder, to the other hosts.
  std::vector<std::string> environment;    // "NAME=VALUE".
  std::string input = "all";               // The ranks that get standard input: "all", "0", "none".
  std::string directory;
  std::string python;
  std::string ssh = "ssh";
  std::vector<std::string> command;
  bool prefix = true;  // Lines are shown with their rank.
  bool verbose = false;
  bool reports_failure = false;  // For a verb with --json whose ranks have printed nothing.
};
// Starts ranks here and by ssh, prefixes their output, forwards signals, and ends all a while after one
// has failed; the exit code is that of the first that failed (128 + signal).
int RunLaunch(const LaunchOptions& options);

}  // namespace mlxcomm::ctl

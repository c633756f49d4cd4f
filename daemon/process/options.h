// The daemon's command line (CLI11).
#pragma once

#include <optional>
#include <string>

#include "proto/queue/scheduling_policy.h"

namespace mlxcomm {

enum class ExitCode : int { kSuccess = 0, kStartup = 1, kUsage = 2, kDrain = 3 };

struct Options {
  std::string config_file;                      // Empty: defaults.
  std::string socket_path;                      // Empty: the configuration's.
  std::string log_level;                        // Empty: the configuration's.
  std::optional<queue::Scheduling> scheduling;  // Absent: the configuration's.
  bool is_private = false;                      // Ends with its last client; keeps nothing on disk.
  bool check_config = false;                    // Only says whether the configuration is fine.
  bool print_config = false;                    // Only writes the annotated configuration.
  bool examined = false;  // Only says what a daemon asks of the program that is to take its place.
  bool by_launchd = false;  // Started again whenever it ends with another code than 0.
};

// launchd has no way to say which codes are no failure, as systemd has: a configuration that is wrong
// would be tried every ten seconds, and jobs that had to be stopped would bring the daemon back.
int ExitCodeFor(const Options& options, ExitCode code);

// An exit code where the process should end at once (--help, --version, mistakes);
// what there is to say has been said then.
std::optional<int> ParseOptions(int argc, char** argv, Options& options);

}  // namespace mlxcomm

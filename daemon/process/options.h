// The daemon's command line (CLI11).
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm {

enum class ExitCode : int { kSuccess = 0, kStartup = 1, kUsage = 2, kDrain = 3 };

struct Options {
  std::string config_file;                      // Empty: defaults.
  std::string socket_path;                      // Empty means the configuration's.
  std::string log_level;                        // Empty means the configuration's.
  std::optional<queue::Scheduling> scheduling;  // Absent means the configuration's.
  bool is_private = false;                      // Ends with its last client; keeps nothing on disk.
  bool check_config = false;                    // Only checks the configuration.
  bool print_config = false;                    // Only prints the annotated configuration.
  bool examined = false;                        // Only answers a running daemon (successor.h).
  bool by_launchd = false;                      // launchd restarts it unless it ends with 0.
};

// Prints the error and returns the exit code: 0 under launchd if a restart would not help. launchd
// cannot be configured to accept other codes, as systemd can, and would try an invalid
// configuration every ten seconds.
int ExitWith(const Options& options, const absl::Status& error, ExitCode code);

// Returns an exit code if the process should end at once (--help, --version, mistakes), after
// printing.
std::optional<int> ParseOptions(int argc, char** argv, Options& options);

}  // namespace mlxcomm

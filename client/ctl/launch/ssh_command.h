// The ssh command, its failures, and commands for any user's shell on another host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {

inline constexpr int kSshFailed = 255;  // ssh's exit code for its own failures.

// The words before the host.
std::vector<std::string> SshCommand(const std::string& ssh);
// Starts mlxcommctl from its path here, or from the host's PATH.
std::string AgentCommand(const std::string& own_path);
// What to do about an ssh that ended before an agent answered, by its exit code and its output. A
// host's banner may say anything, so the last known message counts. `ssh`: see SshCommand.
std::string SshRemedy(const std::string& ssh, const std::string& host, int exit_code,
                      const std::string& output);
// Why rsync did not copy `folder` to the host, and the remedy.
std::string WhyNotCopied(const std::string& ssh, const std::string& host, const std::string& folder,
                         const absl::StatusOr<ProgramOutput>& rsync);
// One word for sh, bash, zsh, fish and csh.
std::string ShellWord(std::string_view word);

}  // namespace mlxcomm::ctl

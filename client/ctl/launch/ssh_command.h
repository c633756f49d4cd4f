// The ssh command, and commands for any user's shell on another host.
//
//   launch          AgentCommand ─▶ mlxcommctl launch-agent (ssh_host.h)
//   doctor --ssh    ProbeCommand ─▶ the mlxcomm and daemon there (doctor/ssh_probe.h)
//
// Both search the same places for mlxcommctl, so doctor finds what launch would start.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

inline constexpr int kSshFailed = 255;  // ssh's exit code for its own failures.

// The words before the host.
std::vector<std::string> SshCommand(const std::string& ssh);
// Starts mlxcommctl from its path here, or from the host's PATH.
std::string AgentCommand(const std::string& own_path);
// Prints the lines that ReadSshProbe reads. `socket_path` is the daemon's there; empty: the default.
std::string ProbeCommand(const std::string& own_path, const std::string& socket_path);
// What to do about an ssh that ended before an agent answered, by its exit code and its output. A host's
// banner may say anything, so the last known message counts.
std::string SshRemedy(const std::string& host, int exit_code, const std::string& output);
// One word for sh, bash, zsh, fish and csh.
std::string ShellWord(std::string_view word);

// ProbeCommand prints kProbeBegins, after any output of the user's shell, then
//   kProbePath PATH          mlxcommctl there, or
//   kProbeNone FOLDERS       not found in these folders
//   kProbeVersion CODE TEXT  the result of `mlxcommctl --version`
//   kProbeStatus CODE        the result of `mlxcommctl status --json`, whose output is the rest
inline constexpr char kProbeBegins[] = "mlxcommctl probe 1";
inline constexpr char kProbePath[] = "path ";
inline constexpr char kProbeNone[] = "none ";
inline constexpr char kProbeVersion[] = "version ";
inline constexpr char kProbeStatus[] = "status ";

}  // namespace mlxcomm::ctl

// How ssh is called, and what it has to run: words for a user's shell on another host, for any
// shell.
//
//   launch          AgentCommand ─▶ mlxcommctl launch-agent (ssh_host.h)
//   doctor --ssh    ProbeCommand ─▶ what it has of mlxcomm (doctor/ssh_probe.h)
//
// Both look for mlxcommctl in the same places, so what doctor finds is what launch starts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

// The ssh command, without the host and the words for its shell.
std::vector<std::string> SshCommand(const std::string& ssh);
// For any user's shell on the host: starts mlxcommctl from its path here, else from where it is
// found there.
std::string AgentCommand(const std::string& own_path);
// Likewise: prints the lines that ReadSshProbe reads (doctor/ssh_probe.h). `socket_path` is that of
// the daemon there; empty: found as by every client.
std::string ProbeCommand(const std::string& own_path, const std::string& socket_path);
// One word for sh, bash, zsh, fish and csh.
std::string ShellWord(std::string_view word);

// What ProbeCommand prints: a line of kProbeBegins, behind any output of the user's shell, then
//   kProbePath PATH          mlxcommctl there, or
//   kProbeNone FOLDERS       not found in these folders
//   kProbeVersion CODE TEXT  of `mlxcommctl --version`
//   kProbeStatus CODE        of `mlxcommctl status --json`, whose output is the rest
inline constexpr char kProbeBegins[] = "mlxcommctl probe 1";
inline constexpr char kProbePath[] = "path ";
inline constexpr char kProbeNone[] = "none ";
inline constexpr char kProbeVersion[] = "version ";
inline constexpr char kProbeStatus[] = "status ";

}  // namespace mlxcomm::ctl

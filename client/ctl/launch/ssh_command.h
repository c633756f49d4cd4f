// How ssh is called, and what it is given to run: words for a user's shell on another host, whichever shell
// that is.
//
//   launch          AgentCommand ─▶ mlxcommctl launch-agent (ssh_host.h)
//   doctor --ssh    ProbeCommand ─▶ what there is of mlxcomm (doctor/ssh_probe.h)
//
// Both look for mlxcommctl in the same places, so what doctor finds is what launch starts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

// How ssh is called, the host and the words for its shell left out.
std::vector<std::string> SshCommand(const std::string& ssh);
// For the user's shell on the host, whichever that is: starts mlxcommctl from where it is
// here, else from where it is found there.
std::string AgentCommand(const std::string& own_path);
// Likewise: prints the lines that ReadSshProbe reads (doctor/ssh_probe.h). `socket_path` is of the daemon
// there; empty: as every client looks for it.
std::string ProbeCommand(const std::string& own_path, const std::string& socket_path);
// One word for sh, bash, zsh, fish and csh.
std::string ShellWord(std::string_view word);

// What ProbeCommand prints: a line of kProbeBegins, behind whatever the user's shell has printed, then
//   kProbePath PATH          mlxcommctl there, or
//   kProbeNone FOLDERS       it is nowhere: where it was looked for
//   kProbeVersion CODE TEXT  of `mlxcommctl --version`
//   kProbeStatus CODE        of `mlxcommctl status --json`, whose output is all that follows
inline constexpr char kProbeBegins[] = "mlxcommctl probe 1";
inline constexpr char kProbePath[] = "path ";
inline constexpr char kProbeNone[] = "none ";
inline constexpr char kProbeVersion[] = "version ";
inline constexpr char kProbeStatus[] = "status ";

}  // namespace mlxcomm::ctl

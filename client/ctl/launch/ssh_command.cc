#include "client/ctl/launch/ssh_command.h"

#include <sstream>

namespace mlxcomm::ctl {
namespace {

// A non-login shell reads no profile, so on a Mac its PATH lacks Homebrew's folder.
constexpr std::string_view kMorePath = "PATH=$PATH:/usr/local/bin:/opt/homebrew/bin; ";

// Runs `then` with the first "$ctl" that exists, or `otherwise` if none exists.
std::string WithMlxcommctl(const std::string& own_path, const std::string& then,
                           const std::string& otherwise) {
  const std::string script = std::string(kMorePath) + "for ctl in " + ShellWord(own_path) +
                             " mlxcommctl; do if command -v \"$ctl\" >/dev/null 2>&1; then " +
                             then + "; fi; done; " + otherwise;
  return "exec /bin/sh -c " + ShellWord(script);
}

}  // namespace

std::string ShellWord(std::string_view word) {
  // A backslash goes outside the quotes, because fish interprets it inside.
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'' || c == '\\') {
      quoted += std::string("'\\") + c + "'";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::vector<std::string> SshCommand(const std::string& ssh) {
  std::istringstream words(ssh);
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  for (const char* const word :
       {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10"}) {
    command.emplace_back(word);
  }
  return command;
}

std::string AgentCommand(const std::string& own_path) {
  return WithMlxcommctl(own_path, "exec \"$ctl\" launch-agent",
                        "echo mlxcommctl is neither at " + ShellWord(own_path) +
                            " nor in PATH: install mlxcomm here >&2; exit 127");
}

std::string ProbeCommand(const std::string& own_path, const std::string& socket_path) {
  const auto line = [](std::string_view word, const std::string& text) {
    return "printf \"%s\\n\" \"" + std::string(word) + text + "\"; ";
  };
  const std::string begins = line(kProbeBegins, "");
  const std::string socket = socket_path.empty() ? "" : " --socket " + ShellWord(socket_path);
  // Standard error explains why a program does not run.
  const std::string reported =
      begins + line(kProbePath, "$(command -v \"$ctl\")") + "said=$(\"$ctl\" --version 2>&1); " +
      line(kProbeVersion, "$? $said") + "said=$(\"$ctl\" status --json" + socket + " 2>&1); " +
      line(kProbeStatus, "$?") + "printf \"%s\\n\" \"$said\"; exit 0";
  return WithMlxcommctl(own_path, reported, begins + line(kProbeNone, "$PATH") + "exit 0");
}

}  // namespace mlxcomm::ctl

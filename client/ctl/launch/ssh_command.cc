#include "client/ctl/launch/ssh_command.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/ctl/launch/rank_host.h"

namespace mlxcomm::ctl {
namespace {

// A non-login shell reads no profile, so on a Mac its PATH lacks Homebrew's folder.
constexpr std::string_view kMorePath = "PATH=$PATH:/usr/local/bin:/opt/homebrew/bin; ";

constexpr absl::string_view kNotThere = "mlxcommctl is neither at ";
constexpr absl::string_view kLetIn =
    "give it this user's key (ssh-copy-id {host}; none yet: ssh-keygen -t ed25519), add a key with "
    "a passphrase to the agent (ssh-add), or name another user (USER@{machine})";
constexpr absl::string_view kNoAnswer =
    "check that it is awake and on this network, that no firewall blocks TCP port 22, and that its "
    "shell's startup files wait for nothing (ssh {host} true)";
constexpr absl::string_view kNewKey =
    "connect once by hand, compare the fingerprint and accept it (ssh {host} true)";
constexpr absl::string_view kChangedKey =
    "if it was set up again, forget its old key (ssh-keygen -R {machine}) and connect once by "
    "hand; if not, someone may be intercepting the connection";

struct SshFault {
  absl::string_view words;  // From OpenSSH, an operating system or us.
  absl::string_view remedy;
};

constexpr SshFault kFaults[] = {
    {"mlxcommctl: cannot start ",
     "install OpenSSH's client (openssh-client), or name the command (--ssh)"},
    {kNotThere,
     "install the same release there, at the same path as here, or link its mlxcommctl into "
     "/usr/local/bin (ssh reads no profile, so a PATH set there does not count)"},
    {"Could not resolve hostname",
     "check the name (a Mac is NAME.local in its own network), or add an alias to ~/.ssh/config "
     "(Host {machine}, HostName ADDRESS)"},
    {"Host key verification failed", kNewKey},
    {"Permission denied (", kLetIn},
    {"Too many authentication failures", kLetIn},
    {"No more authentication methods to try", kLetIn},
    {"Connection refused",
     "let it accept ssh (Mac: System Settings, General, Sharing, Remote Login; Linux: start sshd), "
     "or set its Port in ~/.ssh/config"},
    {"No route to host",
     "check that it is awake and on this network, and that macOS lets the program in whose window "
     "launch runs use it (System Settings, Privacy & Security, Local Network)"},
    {"timed out", kNoAnswer},
    {"Network is unreachable", kNoAnswer},
    {"Host is down", kNoAnswer},
};

absl::string_view RemedyIn(absl::string_view output) {
  std::vector<absl::string_view> lines = absl::StrSplit(output, '\n');
  std::ranges::reverse(lines);
  for (const absl::string_view line : lines) {
    const auto known = [line](const SshFault& one) { return absl::StrContains(line, one.words); };
    const auto* const found = std::ranges::find_if(kFaults, known);
    if (found == std::end(kFaults)) continue;
    const bool changed =
        found->remedy == kNewKey && absl::StrContains(output, "IDENTIFICATION HAS CHANGED");
    return changed ? kChangedKey : found->remedy;
  }
  return "try it by hand (ssh -v {host} true)";
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
  const std::string script = std::string(kMorePath) + "for ctl in " + ShellWord(own_path) +
                             " mlxcommctl; do if command -v \"$ctl\" >/dev/null 2>&1; then "
                             "exec \"$ctl\" launch-agent; fi; done; echo " +
                             std::string(kNotThere) + ShellWord(own_path) +
                             " nor in PATH >&2; exit 127";
  return "exec /bin/sh -c " + ShellWord(script);
}

std::string SshRemedy(const std::string& host, int exit_code, const std::string& output) {
  const bool is_known = exit_code == kSshFailed || exit_code == kExitNotFound;
  const absl::string_view remedy =
      is_known ? RemedyIn(output)
               : "check its login shell (ssh {host} true), and install the same release of mlxcomm "
                 "there again";
  const std::string machine = host.substr(host.rfind('@') + 1);
  return absl::StrReplaceAll(remedy, {{"{host}", host}, {"{machine}", machine}});
}

}  // namespace mlxcomm::ctl

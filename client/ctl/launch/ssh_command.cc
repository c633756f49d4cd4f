#include "client/ctl/launch/ssh_command.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/ctl/launch/rank_host.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

// A non-login shell reads no profile, so on a Mac its PATH lacks Homebrew's folder.
constexpr std::string_view kMorePath = "PATH=$PATH:/usr/local/bin:/opt/homebrew/bin; ";

constexpr absl::string_view kNotThere = "mlxcommctl is neither at ";
constexpr absl::string_view kLetIn =
    "give it this user's key (ssh-copy-id {host}{options}; none yet: ssh-keygen -t ed25519), add a "
    "key with a passphrase to the agent (ssh-add), or set its User in ~/.ssh/config (Host "
    "{machine}, User NAME)";
constexpr absl::string_view kReadableKey =
    "let only you read the key that ssh names above (chmod 600)";
constexpr absl::string_view kNoAnswer =
    "check that it is awake and on this network, that no firewall blocks ssh's TCP port (22 unless "
    "set), and that its shell's startup files wait for nothing ({ssh} {host} true)";
constexpr absl::string_view kNewKey =
    "connect once by hand, compare the fingerprint and accept it ({ssh} {host} true)";
constexpr absl::string_view kChangedKey =
    "if it was set up again, forget its old key (ssh-keygen -R {machine}) and connect once by "
    "hand; if not, someone may be intercepting the connection";
constexpr absl::string_view kNoLibrary =
    "install the same release of mlxcomm there again, with its libraries";

struct SshFault {
  absl::string_view words;  // From OpenSSH, an operating system or us.
  absl::string_view remedy;
};

constexpr SshFault kFaults[] = {
    {"mlxcommctl: cannot start ",
     "install OpenSSH's client (openssh-client), or name the command "
     "(mlxcommctl launch --ssh)"},
    {kNotThere,
     "install the same release there, at the same path as here, or link its mlxcommctl into "
     "/usr/local/bin (ssh reads no profile, so a PATH set there does not count)"},
    {"error while loading shared libraries", kNoLibrary},  // Linux.
    {"Library not loaded", kNoLibrary},                    // macOS.
    {"did not check the command", "check that its file systems answer ({ssh} {host} ls)"},
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
     "check that it is awake and on this network, and that macOS lets your terminal program use "
     "the local network (System Settings, Privacy & Security, Local Network)"},
    {"timed out", kNoAnswer},
    {"Network is unreachable", kNoAnswer},
    {"Host is down", kNoAnswer},
};

// Empty: the output has no known message.
absl::string_view RemedyIn(absl::string_view output) {
  std::vector<absl::string_view> lines = absl::StrSplit(output, '\n');
  std::ranges::reverse(lines);
  for (const absl::string_view line : lines) {
    const auto known = [line](const SshFault& one) { return absl::StrContains(line, one.words); };
    const auto* const found = std::ranges::find_if(kFaults, known);
    if (found == std::end(kFaults)) continue;
    if (found->remedy == kNewKey && absl::StrContains(output, "IDENTIFICATION HAS CHANGED"))
      return kChangedKey;
    if (found->remedy == kLetIn && absl::StrContains(output, "UNPROTECTED PRIVATE KEY FILE"))
      return kReadableKey;
    return found->remedy;
  }
  return {};
}

// Returns whether the other host's shell found no rsync: "sh: 1: rsync: not found",
// "zsh:1: command not found: rsync", "fish: Unknown command: rsync".
bool LacksRsync(absl::string_view output) {
  return std::ranges::any_of(
      std::vector<absl::string_view>(absl::StrSplit(output, '\n')), [](absl::string_view line) {
        return absl::StrContains(line, "rsync") &&
               (absl::StrContains(line, "not found") || absl::StrContains(line, "Unknown command"));
      });
}

// Leaves out rsync's own lines, which may end in "Permission denied (13)".
std::string LinesOfSsh(absl::string_view output) {
  std::vector<absl::string_view> lines = absl::StrSplit(output, '\n');
  std::erase_if(lines, [](absl::string_view line) { return absl::StartsWith(line, "rsync"); });
  return absl::StrJoin(lines, "\n");
}

std::string Filled(absl::string_view remedy, const std::string& ssh, const std::string& host) {
  const absl::string_view command = absl::StripAsciiWhitespace(ssh);
  const bool has_options = command.find_first_of(" \t\n") != command.npos;
  return absl::StrReplaceAll(
      remedy, {{"{ssh}", command},
               {"{host}", host},
               {"{machine}", host.substr(host.rfind('@') + 1)},
               {"{options}", has_options ? ", with the same options as --ssh" : ""}});
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

std::string SshRemedy(const std::string& ssh, const std::string& host, int exit_code,
                      const std::string& output) {
  const bool is_known = exit_code == kSshFailed || exit_code == kExitNotFound;
  absl::string_view remedy = is_known
                                 ? RemedyIn(output)
                                 : "check its login shell ({ssh} {host} true), and install the "
                                   "same release of mlxcomm there again";
  if (remedy.empty()) remedy = "try it by hand ({ssh} -v {host} true)";
  return Filled(remedy, ssh, host);
}

std::string WhyNotCopied(const std::string& ssh, const std::string& host, const std::string& folder,
                         const absl::StatusOr<ProgramOutput>& rsync) {
  constexpr absl::string_view kNoRsync = "; rsync is needed on both hosts";
  if (!rsync.ok()) return absl::StrCat(rsync.status().message(), kNoRsync);
  const int code = rsync->exit_code;
  const absl::string_view begin = absl::string_view(rsync->text).substr(0, 1000);
  // ssh ends its lines with "\r\n".
  const std::string lines = absl::StrReplaceAll(absl::StripTrailingAsciiWhitespace(begin),
                                                {{"\r\n", "; "}, {"\n", "; "}});
  const std::string why =
      absl::StrCat("rsync ended ", HowEnded(code), lines.empty() ? "" : ": ", MakePrintable(lines));
  // If rsync notices the end of the connection first, its exit code is 12 instead of ssh's.
  const std::string of_ssh = LinesOfSsh(rsync->text);
  if (code == kSshFailed || !RemedyIn(of_ssh).empty())
    return absl::StrCat(why, "; ", SshRemedy(ssh, host, kSshFailed, of_ssh));
  if (code == kExitNotFound || LacksRsync(rsync->text)) return absl::StrCat(why, kNoRsync);
  return absl::StrCat(
      why, "; check that ", MakePrintable(folder),
      Filled(" can be made and written there, and that its disk has room ({ssh} {host})", ssh,
             host));
}

}  // namespace mlxcomm::ctl

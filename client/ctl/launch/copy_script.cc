#include "client/ctl/launch/copy_script.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/launch/rank_command.h"
#include "client/ctl/launch/ssh_command.h"
#include "proto/system/program.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kCopyTimeoutNs = 3600'000'000'000;

Failure NotCopied(const std::string& message) {
  return {FailureCode::kInvalidArgument, kNoRank, "--copy: " + message};
}

Failure CopyFailure(const std::string& host, const absl::StatusOr<ProgramOutput>& output) {
  std::string why;
  if (!output.ok()) {
    why = std::string(output.status().message());
  } else if (output->exit_code != 0) {
    why = absl::StrCat("rsync ended ", HowEnded(output->exit_code), ": ",
                       MakePrintable(output->text.substr(0, 1000)));
  } else {
    return {};
  }
  return {FailureCode::kUnavailable, kNoRank,
          absl::StrCat("cannot copy to ", host, ": ", why, " (rsync is needed on both hosts)")};
}

}  // namespace

Failure FolderToCopy(const std::vector<std::string>& command, const std::string& directory,
                     std::string& folder) {
  const std::string script = ScriptOf(command);
  if (script.empty()) return NotCopied("expected a Python script, such as -- python train.py");
  const std::string path =
      script.starts_with('/') || directory.empty() ? script : directory + "/" + script;
  std::array<char, PATH_MAX> resolved;
  const std::string named = path.find('/') == std::string::npos ? "." : FolderOf(path) + "/";
  if (::access(path.c_str(), R_OK) != 0 || ::realpath(named.c_str(), resolved.data()) == nullptr)
    return NotCopied(MakePrintable(script) + " is not here");
  folder = resolved.data();
  const char* const home = std::getenv("HOME");
  const bool is_home = home != nullptr && ::realpath(home, resolved.data()) != nullptr &&
                       (std::string(resolved.data()) + "/").starts_with(folder + "/");
  if (folder == "/" || is_home) {
    return NotCopied("it would copy all of " + MakePrintable(folder) +
                     ": put the script into a folder of its own");
  }
  return {};
}

// The folder stands in what runs there, because releases of rsync quote a path of the destination
// differently.
Failure CopyFolder(const std::string& folder, const std::string& host, const std::string& ssh) {
  std::string shell;
  for (const std::string& word : SshCommand(ssh)) shell += (shell.empty() ? "" : " ") + word;
  const std::string there = ShellWord(folder);
  return CopyFailure(
      host,
      RunProgram({"rsync", "-a", "--exclude=.git", "--exclude=__pycache__", "--exclude=.venv", "-e",
                  shell, "--rsync-path=mkdir -p " + there + " && cd " + there + " && rsync",
                  folder + "/", host + ":./"},
                 {.timeout_ns = kCopyTimeoutNs, .with_errors = true, .until_exit = true}));
}

}  // namespace mlxcomm::ctl

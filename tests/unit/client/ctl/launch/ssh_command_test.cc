// The words for a shell on another host, run by the shells of this machine.
#include "client/ctl/launch/ssh_command.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::ctl::ssh_command_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class SshCommandTest : public FolderTest {
 protected:
  // A mlxcommctl that answers by `script`.
  std::string Make(const std::string& name, const std::string& script) {
    return Write(name, "#!/bin/sh\n" + script + "\n", 0755);
  }
  // As a user's shell runs the command from sshd, with its usual PATH.
  static std::string Run(const std::string& command, const std::string& shell = "sh") {
    const std::string line =
        "env PATH=/usr/bin:/bin " + shell + " -c " + ShellWord(command) + " 2>&1";
    // NOLINTNEXTLINE(bugprone-command-processor): the command is the test's own.
    FILE* const pipe = ::popen(line.c_str(), "r");
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    ::pclose(pipe);
    return text;
  }
};

TEST_F(SshCommandTest, SshNeverPrompts) {
  EXPECT_THAT(SshCommand("ssh -p 2222"),
              testing::ElementsAre("ssh", "-p", "2222", "-T", "-o", "BatchMode=yes", "-o",
                                   "ConnectTimeout=10", "-o", "ServerAliveInterval=10"));
}

TEST_F(SshCommandTest, ProbePrintsPathVersionAndStatus) {
  const std::string odd = "it's $(id) \\ here";
  const std::string path = Make(odd, R"(case "$1" in --version) echo 7.1 ;;
      *) echo "{\"node\": \"$*\"}" ;; esac)");
  for (const char* const shell : {"sh", "bash", "dash"}) {
    // NOLINTNEXTLINE(bugprone-command-processor): the command is the test's own.
    if (std::system((std::string("command -v ") + shell + " > /dev/null").c_str()) != 0) continue;
    EXPECT_EQ(Run(ProbeCommand(path, "/a socket's"), shell),
              "mlxcommctl probe 1\npath " + path +
                  "\nversion 0 7.1\nstatus 0\n{\"node\": \"status --json --socket /a socket's\"}\n")
        << shell;
  }
  EXPECT_THAT(Run(ProbeCommand(path, "")), HasSubstr("\"status --json\""));
}

TEST_F(SshCommandTest, ProbePrintsTheFailureOfAProgramThatDoesNotRun) {
  const std::string path = Make("ctl", "echo dyld: no library >&2; exit 134");
  EXPECT_EQ(Run(ProbeCommand(path, "")),
            "mlxcommctl probe 1\npath " + path +
                "\nversion 134 dyld: no library\nstatus 134\ndyld: no library\n");
}

// Why: launch and doctor must look in the same places, or one finds what the other does not.
TEST_F(SshCommandTest, BothReportAMissingProgram) {
  const std::string nowhere = folder_ + "/none";
  EXPECT_EQ(Run(ProbeCommand(nowhere, "")),
            "mlxcommctl probe 1\nnone /usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin\n");
  EXPECT_THAT(Run(AgentCommand(nowhere)),
              StartsWith("mlxcommctl is neither at " + nowhere + " nor in PATH"));
  EXPECT_EQ(Run(AgentCommand(Make("ctl", "echo \"agent: $*\""))), "agent: launch-agent\n");
}

}  // namespace
}  // namespace mlxcomm::ctl::ssh_command_test

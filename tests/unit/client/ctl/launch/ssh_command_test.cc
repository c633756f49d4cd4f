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

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
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

TEST(SshRemedyTest, EachMessageOfSshLeadsToItsRemedy) {
  const struct {
    const char* message;
    const char* remedy;
  } cases[] = {
      {"ssh: Could not resolve hostname mac-2: Name or service not known\n",
       "Host mac-2, HostName"},
      {"ssh: Could not resolve hostname mac-2: nodename nor servname provided, or not known\n",
       ".ssh/config"},
      {"ssh: connect to host mac-2 port 22: Connection refused\n",
       "System Settings, General, Sharing, Remote Login"},
      {"ssh: connect to host mac-2 port 22: Connection timed out\n", "firewall"},
      {"ssh: connect to host mac-2 port 22: Operation timed out\n", "awake"},
      {"Connection timed out during banner exchange\nConnection to 10.0.0.2 port 22 timed out\n",
       "awake"},
      {"ssh: connect to host mac-2 port 22: No route to host\n",
       "macOS lets your terminal program use the local network"},
      {"ssh: connect to host mac-2 port 22: Host is down\n", "awake"},
      {"No ED25519 host key is known for mac-2 and you have requested strict checking.\n"
       "Host key verification failed.\n",
       "compare the fingerprint and accept it (ssh ada@mac-2 true)"},
      {"@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@\n"
       "Host key for mac-2 has changed and you have requested strict checking.\n"
       "Host key verification failed.\n",
       "set up again, forget its old key (ssh-keygen -R mac-2)"},
      {"ada@mac-2: Permission denied (publickey,password,keyboard-interactive).\n",
       "ssh-copy-id ada@mac-2; none yet: ssh-keygen -t ed25519"},
      {"mac-2: Permission denied (publickey).\n", "~/.ssh/config (Host mac-2, User NAME)"},
      {"@@@\n@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n@@@\n"
       "Permissions 0644 for '~/.ssh/id_ed25519' are too open.\n"
       "ada@mac-2: Permission denied (publickey).\n",
       "let only you read the key that ssh names above (chmod 600)"},
      {"dyld[7]: Library not loaded: @rpath/libssl.3.dylib\n  Referenced from: mlxcommctl\n",
       "install the same release of mlxcomm there again, with its libraries"},
      {"Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures\n",
       "ssh-add"},
      // A banner may say anything.
      {"Connection refused? Call the desk.\nada@mac-2: Permission denied (publickey).\n",
       "ssh-copy-id"},
      {"kex_exchange_identification: Connection closed by remote host\n", "ssh -v ada@mac-2"},
      {"/etc/ssh/ssh_config: line 3: Bad configuration option: foo\n", "ssh -v ada@mac-2"},
      {"", "ssh -v ada@mac-2"},
  };
  for (const auto& one : cases)
    EXPECT_THAT(SshRemedy("ssh", "ada@mac-2", 255, one.message), HasSubstr(one.remedy))
        << one.message;
}

TEST(SshRemedyTest, ExitCodeDistinguishesSshFromWhatItRuns) {
  EXPECT_THAT(
      SshRemedy("ssh", "a", 127, "mlxcommctl: cannot start ssh: No such file or directory\n"),
      AllOf(StartsWith("install OpenSSH's client"), HasSubstr("(mlxcommctl launch --ssh)")));
  EXPECT_THAT(SshRemedy("ssh", "a", 127,
                        "mlxcommctl: error while loading shared libraries: libssl.so.3: cannot "
                        "open shared object file: No such file or directory\n"),
              EndsWith("there again, with its libraries"));
  EXPECT_THAT(SshRemedy("ssh", "a", 134, "dyld: Library not loaded\n"), HasSubstr("same release"));
  EXPECT_THAT(SshRemedy("ssh", "a", 1, "scp: Connection refused\n"), HasSubstr("ssh a true"))
      << "it is the command's";
}

// Why: the advice tried port 22, and the user saw a different failure or none.
TEST(SshRemedyTest, AdviceHasTheOptionsOfSsh) {
  const std::string ssh = " ssh -p 2222 ";
  EXPECT_EQ(SshRemedy(ssh, "far", 255, ""), "try it by hand (ssh -p 2222 -v far true)");
  EXPECT_THAT(SshRemedy(ssh, "far", 255, "far: Permission denied (publickey).\n"),
              HasSubstr("(ssh-copy-id far, with the same options as --ssh; none yet"));
  EXPECT_THAT(SshRemedy(ssh, "far", 255, "Host key verification failed.\n"),
              EndsWith("(ssh -p 2222 far true)"));
  EXPECT_THAT(SshRemedy(ssh, "far", 1, ""), HasSubstr("(ssh -p 2222 far true)"));
}

std::string NotCopied(int exit_code, const std::string& text) {
  return WhyNotCopied("ssh -p 2222", "far", "/data/my scripts",
                      ProgramOutput{.exit_code = exit_code, .text = text, .undead = 0});
}

// Why: a folder that could not be made, and a full disk, led to "rsync is needed on both hosts".
TEST(WhyNotCopiedTest, EachFailureOfRsyncLeadsToItsRemedy) {
  const std::string folder =
      "check that /data/my scripts can be made and written there, and that its disk has room "
      "(ssh -p 2222 far)";
  EXPECT_EQ(NotCopied(12, "mkdir: cannot create directory: Permission denied\nrsync error (12)\n"),
            "rsync ended with exit code 12: mkdir: cannot create directory: Permission denied; "
            "rsync error (12); " +
                folder);
  EXPECT_THAT(NotCopied(11, "rsync: write failed: No space left on device (28)\n"),
              EndsWith("(28); " + folder));
  EXPECT_THAT(NotCopied(255, "far: Permission denied (publickey).\r\nrsync error (255)\n"),
              AllOf(StartsWith("rsync ended with exit code 255: far: Permission denied "
                               "(publickey).; rsync error (255); give it this user's key"),
                    Not(HasSubstr("rsync is needed"))));
  EXPECT_EQ(
      NotCopied(127, "sh: 1: rsync: not found\n"),
      "rsync ended with exit code 127: sh: 1: rsync: not found; rsync is needed on both hosts");
  EXPECT_EQ(WhyNotCopied("ssh", "far", "/a", absl::NotFoundError("rsync: no such program")),
            "rsync: no such program; rsync is needed on both hosts");
  // Why: rsync ends with 12 if it notices the end of the connection before ssh's exit code.
  EXPECT_THAT(NotCopied(12, "far: Permission denied (publickey).\r\nrsync error (12)\n"),
              HasSubstr("; give it this user's key"));
  for (const char* const lacks : {"sh: 1: rsync: not found", "zsh:1: command not found: rsync",
                                  "fish: Unknown command: rsync"}) {
    EXPECT_THAT(NotCopied(12, std::string(lacks) + "\nrsync error (12)\n"),
                EndsWith("rsync is needed on both hosts"));
  }
  EXPECT_THAT(NotCopied(11, "rsync: [Receiver] mkdir \"/x\" failed: Permission denied (13)\n"),
              EndsWith("(13); " + folder));
  EXPECT_EQ(NotCopied(137, ""), "rsync ended by signal 9 (Killed); " + folder);
}

TEST_F(SshCommandTest, AgentRunsInEveryShell) {
  const std::string path = Make("it's $(id) \\ here", "echo \"agent: $*\"");
  for (const char* const shell : {"sh", "bash", "dash"}) {
    // NOLINTNEXTLINE(bugprone-command-processor): the command is the test's own.
    if (std::system((std::string("command -v ") + shell + " > /dev/null").c_str()) != 0) continue;
    EXPECT_EQ(Run(AgentCommand(path), shell), "agent: launch-agent\n") << shell;
  }
}

TEST_F(SshCommandTest, ReportsAMissingProgram) {
  const std::string nowhere = folder_ + "/none";
  const std::string reported = Run(AgentCommand(nowhere));
  EXPECT_EQ(reported, "mlxcommctl is neither at " + nowhere + " nor in PATH\n");
  EXPECT_THAT(SshRemedy("ssh", "a", 127, reported), HasSubstr("at the same path as here"));
}

}  // namespace
}  // namespace mlxcomm::ctl::ssh_command_test

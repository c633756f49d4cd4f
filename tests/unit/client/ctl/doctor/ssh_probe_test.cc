// The meaning of ssh's messages, as OpenSSH writes them on Linux and macOS; and hosts that are
// tried at the same time, with a program in ssh's place.
#include "client/ctl/doctor/ssh_probe.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>

#include "client/ctl/doctor/check.h"
#include "tests/unit/temporary_folder.h"

namespace mlxcomm::ctl::ssh_probe_test {
namespace {

using testing::HasSubstr;

SshHostFacts Said(const std::string& text, int exit_code = 255) {
  return ReadSshProbe("mac-2", ProgramOutput{exit_code, text});
}

constexpr char kStatus[] =
    R"({"node": "two", "cluster": "studio", "nodes": [{"id": "0b", "news": 1}], "more": {}})";

std::string Probe(const std::string& version, const std::string& status) {
  return "Welcome!\nno end of linemlxcommctl probe 1\npath /opt/bin/mlxcommctl\nversion " +
         version + "\nstatus " + status + "\n";
}

// One host and its findings, beside a daemon of cluster "studio" with node 0b.
std::vector<Finding> FoundOf(const SshHostFacts& host) {
  Facts facts;
  facts.own_version = "7.1";
  facts.cluster.daemon_answers = true;
  facts.cluster.status.set_cluster("studio");
  v1::NodeStatus& node = *facts.cluster.status.add_nodes();
  node.set_id("0b");
  node.set_state("up");
  facts.ssh.asked = true;
  facts.ssh.hosts = {host};
  Findings findings;
  CheckSsh(facts, findings);
  return findings.Sorted();
}

std::string Code(const SshHostFacts& host) {
  const std::vector<Finding> found = FoundOf(host);
  return found.empty() ? "" : found.front().code;
}

TEST(SshProbeTest, EachMessageOfSshLeadsToItsFinding) {
  const struct {
    const char* message;
    const char* code;
    const char* remedy;
  } cases[] = {
      {"ssh: Could not resolve hostname mac-2: Name or service not known\r\n", "MC602", "mac-2"},
      {"ssh: Could not resolve hostname mac-2: nodename nor servname provided, or not known\n",
       "MC602", ".ssh/config"},
      {"ssh: connect to host mac-2 port 22: Connection refused\n", "MC603",
       "System Settings, General, Sharing, Remote Login"},
      {"ssh: connect to host mac-2 port 22: Connection timed out\n", "MC604", "firewall"},
      {"ssh: connect to host mac-2 port 22: Operation timed out\n", "MC604", "awake"},
      {"Connection timed out during banner exchange\nConnection to 10.0.0.2 port 22 timed out\n",
       "MC604", "awake"},
      {"ssh: connect to host mac-2 port 22: No route to host\n", "MC604", "network"},
      {"ssh: connect to host mac-2 port 22: Host is down\n", "MC604", "awake"},
      {"No ED25519 host key is known for mac-2 and you have requested strict checking.\n"
       "Host key verification failed.\n",
       "MC605", "compare the fingerprint"},
      {"@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@\n"
       "Host key for mac-2 has changed and you have requested strict checking.\n"
       "Host key verification failed.\n",
       "MC605", "set up again"},
      {"ada@mac-2: Permission denied (publickey,password,keyboard-interactive).\n", "MC606",
       "ssh-keygen -t ed25519"},
      {"Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures\n", "MC606",
       "ssh-add"},
      {"kex_exchange_identification: Connection closed by remote host\n", "MC607", "ssh -v mac-2"},
      {"/etc/ssh/ssh_config: line 3: Bad configuration option: foo\n", "MC607", "ssh -v mac-2"},
      {"", "MC607", "ssh -v mac-2"},
  };
  for (const auto& one : cases) {
    const std::vector<Finding> found = FoundOf(Said(one.message));
    ASSERT_EQ(found.size(), 1u) << one.message;
    EXPECT_EQ(found[0].code, one.code) << one.message;
    EXPECT_EQ(found[0].object, "host mac-2");
    EXPECT_FALSE(found[0].found.empty());
    EXPECT_THAT(found[0].remedy, HasSubstr(one.remedy));
    EXPECT_FALSE(found[0].fix.safe);  // doctor runs none of them itself.
  }
}

TEST(SshProbeTest, FixesNameTheHost) {
  EXPECT_THAT(FoundOf(Said("ada@mac-2: Permission denied (publickey).\n"))[0].fix.commands,
              testing::ElementsAre(testing::ElementsAre("ssh-copy-id", "mac-2")));
  SshHostFacts changed =
      Said("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.\n");
  changed.host = "ada@mac-2";
  EXPECT_THAT(FoundOf(changed)[0].fix.commands,
              testing::ElementsAre(testing::ElementsAre("ssh-keygen", "-R", "mac-2")));
}

// Why: a banner may say anything, and ssh shows it before it ends.
TEST(SshProbeTest, LastMessageCounts) {
  EXPECT_EQ(
      Code(Said("Connection refused? Call the desk.\nada@mac-2: Permission denied (publickey).\n")),
      "MC606");
}

TEST(SshProbeTest, ReportsAnotherProgramInItsPlace) {
  const SshHostFacts nologin = Said("This account is currently not available.\n", 1);
  EXPECT_EQ(nologin.answer, SshAnswer::kFailed);
  EXPECT_EQ(nologin.message, "This account is currently not available.\nended with exit code 1");
  // ssh's own messages in a command's output are the command's.
  EXPECT_EQ(Said("scp: Connection refused\n", 1).answer, SshAnswer::kFailed);
  EXPECT_EQ(Code(nologin), "MC607");
}

TEST(SshProbeTest, DistinguishesNoSshFromNoAnswer) {
  EXPECT_EQ(Code(ReadSshProbe("a", absl::NotFoundError("ssh: no such program"))), "MC601");
  EXPECT_EQ(Code(ReadSshProbe("a", absl::DeadlineExceededError("ssh did not end within 30 s"))),
            "MC604");
  EXPECT_EQ(Code(ReadSshProbe("a", absl::ResourceExhaustedError("no pipe"))), "MC607");
}

TEST(SshProbeTest, HealthyHostHasNoFault) {
  const SshHostFacts host = Said(Probe("0 7.1", std::string("0\n") + kStatus), 0);
  EXPECT_EQ(host.answer, SshAnswer::kReached);
  EXPECT_EQ(host.path, "/opt/bin/mlxcommctl");
  const std::vector<Finding> found = FoundOf(host);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, "MC614");
  EXPECT_EQ(found[0].found, "/opt/bin/mlxcommctl, release 7.1, node two of cluster studio");
}

TEST(SshProbeTest, ReportsFaultsOfTheHost) {
  const std::vector<Finding> none =
      FoundOf(Said("mlxcommctl probe 1\nnone /usr/bin:/opt/homebrew/bin\n", 0));
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].code, "MC608");
  EXPECT_THAT(none[0].found, HasSubstr("nor in /usr/bin:/opt/homebrew/bin"));

  const std::vector<Finding> broken =
      FoundOf(Said(Probe("134 dyld: Library not loaded\n  Reason: none", "134\nx"), 0));
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].code, "MC608");
  EXPECT_THAT(broken[0].found,
              HasSubstr("/opt/bin/mlxcommctl ended with 134\ndyld: Library not loaded"));

  EXPECT_EQ(Code(Said(Probe("0 7.0", std::string("0\n") + kStatus), 0)), "MC609");
  const std::vector<Finding> no_daemon = FoundOf(Said(
      Probe("0 7.1", "3\nmlxcommctl: no mlxcommd listens\n{\"error\":{\"code\":\"UNAVAILABLE\"}}"),
      0));
  EXPECT_EQ(no_daemon[0].code, "MC610");
  EXPECT_EQ(no_daemon[0].found, "mlxcommctl: no mlxcommd listens");

  SshHostFacts stranger = Said(Probe("0 7.1", std::string("0\n") + kStatus), 0);
  stranger.node_id = "0c";
  EXPECT_EQ(Code(stranger), "MC611");
}

// A host's answers go to a terminal and to programs, and are not to be trusted.
TEST(SshProbeTest, OutputOfAHostIsBoundedAndPrintable) {
  const std::string lines(100'000, 'x');
  for (const SshHostFacts& host :
       {Said("\x1b[2J" + lines + "\n" + lines + "\x07\n"),
        Said("mlxcommctl probe 1\nnone " + lines + "\x1b\n", 0),
        Said("mlxcommctl probe 1\npath \x1b" + lines + "\nversion 0 \x1b" + lines +
                 "\nstatus 3\n\x1b" + lines + "\n",
             0),
        Said(Probe("0 7.1", "0\n{\"node\": \"\\u001b[2J\", \"cluster\": \"" + lines + "\"}"), 0),
        Said("mlxcommctl probe 1\n", 0), Said("mlxcommctl probe 1\npath a\n", 0),
        Said("mlxcommctl probe 1\npath a\nversion ", 0),
        Said(Probe("0 7.1", "0\n" + std::string(100'000, '[')), 0), Said(Probe("0 7.1", "x"), 0)}) {
    for (const std::string& text :
         {host.message, host.path, host.searched, host.version, host.version_message,
          host.daemon_message, host.cluster, host.node}) {
      EXPECT_LT(text.size(), 2000u);
      EXPECT_EQ(text.find_first_of("\x1b\x07"), std::string::npos) << text;
    }
    EXPECT_FALSE(FoundOf(host).empty());
  }
}

TEST(SshProbeTest, ReportsNodesWithoutANameForSshAndNoHosts) {
  Facts facts;
  Findings nothing;
  CheckSsh(facts, nothing);
  EXPECT_TRUE(nothing.Sorted().empty());  // Nothing was asked for.
  facts.ssh.asked = facts.ssh.of_cluster = true;
  Findings nobody;
  CheckSsh(facts, nobody);
  EXPECT_EQ(nobody.Sorted().at(0).code, "MC613");
  facts.ssh.nameless = {"-oProxyCommand=x"};
  Findings nameless;
  CheckSsh(facts, nameless);
  ASSERT_EQ(nameless.Sorted().size(), 1u);
  EXPECT_EQ(nameless.Sorted().at(0).object, "node -oProxyCommand=x");
}

class ProbeHostsTest : public FolderTest {
 protected:
  SshProbeOptions Ssh(const std::string& script) {
    SshProbeOptions options;
    options.command = {Write("ssh", "#!/bin/sh\nhost=$1\n" + script + "\n", 0755)};
    options.own_path = "/nowhere/mlxcommctl";
    return options;
  }
};

// How: each ssh waits until all others have begun, so that none would end if they ran one after the
// other.
TEST_F(ProbeHostsTest, TriesHostsConcurrentlyAndKeepsTheirOrder) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 8; ++i) hosts.push_back("h" + std::to_string(i));
  const SshProbeOptions options =
      Ssh("touch " + folder_ + "/$host\nwhile [ $(ls " + folder_ +
          " | grep -c ^h) -lt 8 ]; do :; done\necho $host says >&2; exit 255");
  const std::vector<SshHostFacts> facts = ProbeHosts(hosts, options);
  ASSERT_EQ(facts.size(), hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_EQ(facts[i].host, hosts[i]);
    EXPECT_EQ(facts[i].message, hosts[i] + " says");
  }
}

TEST_F(ProbeHostsTest, TriesMoreHostsThanRunAtOnce) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 40; ++i) hosts.push_back("h" + std::to_string(i));
  for (const SshHostFacts& one : ProbeHosts(hosts, Ssh("echo $host; exit 255"))) {
    EXPECT_EQ(one.message, one.host);
  }
  EXPECT_TRUE(ProbeHosts({}, Ssh("exit 255")).empty());
}

TEST_F(ProbeHostsTest, EndsAHostThatHangsAndReportsTheOthers) {
  SshProbeOptions options = Ssh("[ $host = slow ] && exec sleep 1000; exit 255");
  options.timeout_ns = 300'000'000;
  const std::vector<SshHostFacts> facts = ProbeHosts({"slow", "fast"}, options);
  EXPECT_EQ(facts[0].answer, SshAnswer::kNoAnswer);
  EXPECT_THAT(facts[0].message, HasSubstr("did not end"));
  EXPECT_EQ(facts[1].answer, SshAnswer::kFailed);
}

// Why: a shared ssh (ControlPersist) continues in the background, with its output open.
TEST_F(ProbeHostsTest, DoesNotWaitForProcessesThatSshLeaves) {
  const SshProbeOptions options = Ssh("sleep 1000 & echo $! > " + folder_ +
                                      "/pid; "
                                      "echo 'mlxcommctl probe 1'; echo 'none /bin'; exit 0");
  const std::vector<SshHostFacts> facts = ProbeHosts({"a"}, options);
  EXPECT_EQ(facts[0].answer, SshAnswer::kReached);
  EXPECT_EQ(facts[0].searched, "/bin");
  // NOLINTNEXTLINE(bugprone-command-processor): the command is the test's own.
  EXPECT_EQ(std::system(("kill $(cat " + folder_ + "/pid)").c_str()), 0);  // It was still there.
}

}  // namespace
}  // namespace mlxcomm::ctl::ssh_probe_test

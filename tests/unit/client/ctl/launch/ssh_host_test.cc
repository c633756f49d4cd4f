#include "client/ctl/launch/ssh_host.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "client/ctl/launch/launch_frames.h"
#include "proto/types/version.h"
#include "tests/unit/temporary_folder.h"

namespace mlxcomm::ctl::ssh_host_test {
namespace {

class Listener : public RankListener {
 public:
  std::string why_;  // The host failed.

 private:
  void OnOutput(unsigned, int, std::string_view) override {}
  void OnEnded(const v1::LaunchEnded&) override {}
  void OnInputTaken(const RankHost&, std::size_t) override {}
  void OnHostText(const std::string&, const std::string&) override {}
  void OnHostFailed(const std::string&, const std::string& why, int) override { why_ = why; }
  void OnOutcome(const v1::LaunchOutcome&) override {}
  void OnNotice(const std::string&) override {}
};

constexpr int kLooked = 256;

std::vector<int> Open() {
  std::vector<int> open;
  for (int number = 0; number < kLooked; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) open.push_back(number);
  }
  return open;
}

// While it lives, this process may open only this many descriptors.
class Room {
 public:
  explicit Room(int free) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit less = before_;
    less.rlim_cur = 0;
    while (free > 0) {
      if (::fcntl(static_cast<int>(less.rlim_cur++), F_GETFD) < 0) --free;
    }
    ::setrlimit(RLIMIT_NOFILE, &less);
  }
  ~Room() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Why: launch tries many hosts, one after the other. Descriptors that one left open when no pipe
// was available were missing for the next.
TEST(SshHostTest, LeavesNoDescriptorOpenIfAPipeFails) {
  Listener listener;
  for (int free = 0; free < 6; ++free) {
    const std::vector<int> before = Open();
    const Room room(free);
    SshHost host("nowhere", {0}, {}, RankCommand{}, listener);
    EXPECT_EQ(host.Connect("true", "mlxcommctl").message(),
              "cannot start ssh for host nowhere: Too many open files: raise ulimit -n or -u, or "
              "use fewer hosts")
        << "with room for " << free;
    EXPECT_EQ(Open(), before) << "with room for " << free;
  }
}

class SshHostDeadlineTest : public FolderTest {
 protected:
  // Runs a stand-in for ssh until it answers, if it does, and the deadline has passed.
  std::string WhyLate(const std::string& script, bool answers) {
    const std::string ssh = Write("ssh", "#!/bin/sh\n" + script + "\n", 0755);
    Listener listener;
    SshHost host("far", {0}, {}, RankCommand{}, listener);
    EXPECT_TRUE(host.Connect(ssh + " -p 22", "mlxcommctl", std::chrono::seconds(0)).ok());
    std::vector<pollfd> waited;
    host.AddTo(waited);
    if (answers) ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 30'000);
    host.Turn();
    return listener.why_;
  }
};

TEST_F(SshHostDeadlineTest, NamesTheNetworkIfNoAgentAnswers) {
  EXPECT_THAT(WhyLate("exec sleep 60", false),
              testing::StartsWith("no answer within 0 s: check that it is awake"));
}

// Why: the agent had answered, so the network and the firewall were not at fault.
TEST_F(SshHostDeadlineTest, NamesTheFileSystemsIfTheAgentDoesNotCheckTheCommand) {
  FrameWriter writer;
  v1::LaunchFrame hello;
  hello.mutable_hello()->set_version(kSoftwareVersion);
  writer.Begin();
  writer.Add(hello);
  const int file = ::open((folder_ + "/hello").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_TRUE(writer.WriteTo(file));
  ::close(file);
  EXPECT_EQ(WhyLate("cat " + folder_ + "/hello; exec sleep 60", true),
            "mlxcommctl there did not check the command within 0 s: check that its file systems "
            "answer (" +
                folder_ + "/ssh -p 22 far ls)");
}

}  // namespace
}  // namespace mlxcomm::ctl::ssh_host_test

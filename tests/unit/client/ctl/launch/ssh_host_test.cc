#include "client/ctl/launch/ssh_host.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

namespace mlxcomm::ctl::ssh_host_test {
namespace {

class Silent : public RankListener {
  void OnOutput(unsigned, int, std::string_view) override {}
  void OnEnded(const v1::LaunchEnded&) override {}
  void OnInputTaken(const RankHost&, std::size_t) override {}
  void OnHostText(const std::string&, const std::string&) override {}
  void OnHostFailed(const std::string&, const std::string&, int) override {}
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
  Silent silent;
  for (int free = 0; free < 6; ++free) {
    const std::vector<int> before = Open();
    const Room room(free);
    SshHost host("nowhere", {0}, {}, RankCommand{}, silent);
    errno = 0;
    EXPECT_FALSE(host.Connect({"true"}, "mlxcommctl")) << "with room for " << free;
    EXPECT_EQ(errno, EMFILE) << "the caller reports it";
    EXPECT_EQ(Open(), before) << "with room for " << free;
  }
}

}  // namespace
}  // namespace mlxcomm::ctl::ssh_host_test

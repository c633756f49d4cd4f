// Starting a private daemon, with scripts instead of it: failures must be reported at once, and the
// daemon must inherit nothing.
#include "client/lib/private_daemon.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::client::private_daemon_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kPatienceNs = 60'000'000'000;
// Its arguments are --private --socket PATH; the folder is removed with the test.
constexpr char kUntilTheTestIsOver[] = "while [ -d \"${3%/*}\" ]; do :; done";

class PrivateDaemonTest : public FolderTest {
 protected:
  PrivateDaemonTest() {
    ::mkdir((folder_ + "/run").c_str(), 0700);
    SetScript("echo one >&2; echo cannot listen >&2; exit 1");
  }
  ~PrivateDaemonTest() override { ::unsetenv("MLXCOMM_DAEMON"); }
  void SetScript(const std::string& text) {
    const std::string path = Write("mlxcommd", "#!/bin/sh\n" + text + "\n", 0700);
    ::setenv("MLXCOMM_DAEMON", path.c_str(), 1);
  }
  Failure Start(std::uint64_t timeout_ns = kPatienceNs,
                const std::function<bool()>& interrupted = {}) const {
    return StartPrivateDaemon(folder_ + "/run/mlxcommd.sock", timeout_ns, interrupted);
  }
};

TEST_F(PrivateDaemonTest, TellsTheEndOfTheLogOfOneThatEndsAtOnce) {
  const Failure failure = Start();
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("ended at once"), HasSubstr("one | cannot listen")));
}

// Why: a program that ignores SIGCHLD has no child to wait for; the exit was noticed only at the
// timeout.
TEST_F(PrivateDaemonTest, SeesTheEndAlsoWhereChildrenAreReapedByThemselves) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const Failure failure = Start();
  ::signal(SIGCHLD, before);
  EXPECT_THAT(failure.message, HasSubstr("ended at once"));
}

// Why: a launcher that reads a rank's pipe to its end would also wait for the daemon to exit.
TEST_F(PrivateDaemonTest, InheritsNoDescriptor) {
  SetScript("if (: >&9) 2>/dev/null; then echo inherited >&2; else echo clean >&2; fi; exit 1");
  const int file = ::open("/dev/null", O_WRONLY);
  ASSERT_EQ(::dup2(file, 9), 9);
  const Failure failure = Start();
  ::close(9);
  ::close(file);
  EXPECT_THAT(failure.message, HasSubstr("clean"));
}

TEST_F(PrivateDaemonTest, InheritsNoSignalMask) {
  SetScript("kill -TERM $$; echo blocked >&2; exit 1");
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const Failure failure = Start();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("ended at once"), Not(HasSubstr("blocked"))));
}

TEST_F(PrivateDaemonTest, SaysThatItCannotLock) {
  ::mkdir((folder_ + "/run/lock").c_str(), 0700);
  const Failure failure = Start();
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("cannot open"), HasSubstr("/lock")));
}

// Why: TMPDIR may be relative, and the daemon refuses a relative socket path.
TEST_F(PrivateDaemonTest, IsGivenAPathThatDoesNotDependOnTheWorkingDirectory) {
  SetScript("echo \"at $3\" >&2; exit 1");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const std::string here = std::filesystem::current_path().string();
  const Failure failure = StartPrivateDaemon("run/mlxcommd.sock", kPatienceNs);
  std::filesystem::current_path(before);
  EXPECT_THAT(failure.message, HasSubstr("at " + here + "/run/mlxcommd.sock"));
}

// Why: two daemons on one socket would each have some of the ranks.
TEST_F(PrivateDaemonTest, StartsNoneWhileAnotherProcessDoes) {
  const int lock = ::open((folder_ + "/run/lock").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  const Failure failure = Start(/*timeout_ns=*/20'000'000);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, HasSubstr("another process"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/run/mlxcommd.log"));
  ::close(lock);
}

TEST_F(PrivateDaemonTest, SaysWhenItIsNotReadyInTime) {
  SetScript(kUntilTheTestIsOver);
  const Failure failure = Start(/*timeout_ns=*/20'000'000);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, HasSubstr("not ready in time"));
}

TEST_F(PrivateDaemonTest, IsCancelled) {
  SetScript(kUntilTheTestIsOver);
  const Failure failure = Start(kPatienceNs, [] { return true; });
  EXPECT_EQ(failure.code, FailureCode::kCancelled);
}

TEST_F(PrivateDaemonTest, RefusesAFolderThatOthersCanWriteTo) {
  ::chmod((folder_ + "/run").c_str(), 0777);
  EXPECT_THAT(Start().message, HasSubstr("must be writable by this user only"));
}

TEST_F(PrivateDaemonTest, SaysWhatToDoWithoutAPlaceForIt) {
  const Failure failure = StartPrivateDaemon(folder_ + "/no/such/mlxcommd.sock", kPatienceNs);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("cannot make"), HasSubstr("XDG_RUNTIME_DIR")));
}

}  // namespace
}  // namespace mlxcomm::client::private_daemon_test

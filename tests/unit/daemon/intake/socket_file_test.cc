// Several daemons, or other users, want the same socket path.
#include "daemon/intake/socket_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <initializer_list>
#include <thread>
#include <vector>

#include "proto/queue/dial.h"
#include "tests/unit/daemon/intake/local_process.h"

namespace mlxcomm::intake::socket_file_test {
namespace {

using testing::HasSubstr;

FileDescriptor MakeSocket() { return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM, 0)); }

class SocketFileTest : public testing::Test {
 protected:
  SocketFolder folder;
  std::string path = folder.socket();
};

// Why: no user may put a socket where all users connect, not even while no daemon runs, as the
// sticky bit of /tmp would allow.
TEST_F(SocketFileTest, ForAllUsersOnlyItsUserMayWriteToItsFolder) {
  for (const mode_t mode : std::initializer_list<mode_t>{0775, 0757, 01777}) {
    ASSERT_EQ(::chmod(folder.path().c_str(), mode), 0);
    SocketFile file(path, /*all_users=*/true);
    const absl::Status status = file.Claim();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << std::oct << mode;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod go-w"));
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  SocketFile file(path, /*all_users=*/true);
  EXPECT_TRUE(file.Claim().ok());
}

// Why: on macOS a busy daemon refuses a client like a missing one; so the client checks a file that
// is replaced by each daemon and removed with it.
TEST_F(SocketFileTest, ShowsItsPresenceUntilItsSocketIsRemoved) {
  for (const bool all_users : {false, true}) {
    ASSERT_EQ(::symlink("/nowhere", (queue::PresenceFile(path) + ".new").c_str()), 0);
    SocketFile file(path, all_users);
    EXPECT_FALSE(queue::IsPresent(path));
    ASSERT_TRUE(file.Claim().ok());
    EXPECT_TRUE(queue::IsPresent(path));
    struct stat facts{};
    ASSERT_EQ(::stat(queue::PresenceFile(path).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, all_users ? 0644u : 0600u);
    pid_t reported = 0;
    std::ifstream(queue::PresenceFile(path)) >> reported;
    EXPECT_EQ(reported, ::getpid());
    file.Remove();
    EXPECT_FALSE(queue::IsPresent(path));
    EXPECT_FALSE(std::filesystem::exists(queue::PresenceFile(path)));
  }
}

// Why: every user who may read the file can lock it; that must not keep a daemon from starting.
TEST_F(SocketFileTest, StartsEvenIfAnotherProcessHoldsTheOldPresenceFile) {
  const FileDescriptor held(
      ::open(queue::PresenceFile(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  SocketFile file(path, true);
  const absl::Status status = file.Claim();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(queue::IsPresent(path));
}

// Why: between bind and listen a socket looks stale.
TEST_F(SocketFileTest, KeepsTheSocketOfADaemonThatIsStarting) {
  SocketFile first(path, false);
  ASSERT_TRUE(first.Claim().ok());
  const FileDescriptor socket = MakeSocket();
  ASSERT_TRUE(first.Bind(socket.get()).ok());
  {
    SocketFile second(path, false);
    const absl::Status status = second.Claim();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("stop it first"));
  }
  EXPECT_TRUE(std::filesystem::is_socket(path));
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  EXPECT_TRUE(LocalProcess(path).connected());
}

// Why: the ranks of a job may each start a daemon at once.
// How: all find the same stale socket; only one may replace it.
TEST_F(SocketFileTest, BelongsToOneDaemonIfManyStartAtOnce) {
  constexpr int kDaemons = 8;
  for (int round = 0; round < 20; ++round) {
    {
      SocketFile stale(path, false);
      ASSERT_TRUE(stale.Claim().ok());
      ASSERT_TRUE(stale.Bind(MakeSocket().get()).ok());
      ASSERT_EQ(::link(path.c_str(), (path + ".kept").c_str()), 0);
    }
    ASSERT_EQ(::rename((path + ".kept").c_str(), path.c_str()), 0);
    std::atomic<int> winners{0};
    std::atomic<int> tried{0};
    std::vector<std::thread> daemons;
    for (int i = 0; i < kDaemons; ++i) {
      daemons.emplace_back([&] {
        SocketFile file(path, false);
        const FileDescriptor socket = MakeSocket();
        const bool won =
            file.Claim().ok() && file.Bind(socket.get()).ok() && ::listen(socket.get(), 1) == 0;
        if (won) ++winners;
        ++tried;
        while (tried < kDaemons) std::this_thread::yield();
        if (won) {
          EXPECT_TRUE(LocalProcess(path).connected());
        }
      });
    }
    for (std::thread& daemon : daemons) daemon.join();
    ASSERT_EQ(winners, 1);
  }
}

TEST_F(SocketFileTest, KeepsAFileThatIsNotASocketAndReleasesTheLock) {
  std::ofstream(path) << "precious";
  SocketFile first(path, false);
  const absl::Status refused = first.Claim();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("not a socket"));
  ASSERT_EQ(std::filesystem::file_size(path), 8u);
  std::filesystem::remove(path);
  SocketFile second(path, false);
  const absl::Status status = second.Claim();
  EXPECT_TRUE(status.ok()) << status;
}

// Why: a user who may write to the folder could put a socket there and get the training processes'
// data.
TEST_F(SocketFileTest, RefusesAFolderThatOthersMayWriteTo) {
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  SocketFile file(path, false);
  const absl::Status status = file.Claim();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("chmod o-w"));
  // As in /tmp, users can change only their own files.
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  const absl::Status sticky = file.Claim();
  EXPECT_TRUE(sticky.ok()) << sticky;
}

TEST_F(SocketFileTest, RefusesAFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::chown(folder.path().c_str(), 65534, 65534), 0);
  SocketFile file(path, false);
  const absl::Status status = file.Claim();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("belongs to user 65534"));
}

// Why: a link at the lock's path could make the daemon open another file.
TEST_F(SocketFileTest, DoesNotFollowALinkToItsLock) {
  ASSERT_EQ(::symlink((folder.path() + "/elsewhere").c_str(), (path + ".lock").c_str()), 0);
  SocketFile file(path, false);
  EXPECT_EQ(file.Claim().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/elsewhere"));
}

TEST_F(SocketFileTest, MakesFoldersAboveItsOwn) {
  path = folder.path() + "/one/two/socket";
  SocketFile file(path, false);
  const absl::Status status = file.Claim();
  ASSERT_TRUE(status.ok()) << status;
  struct stat facts{};
  ASSERT_EQ(::stat((folder.path() + "/one/two").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace mlxcomm::intake::socket_file_test

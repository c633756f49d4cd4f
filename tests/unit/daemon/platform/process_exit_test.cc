// A descriptor that tells of a process's end.
#include "daemon/platform/process_exit.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace mlxcomm::platform {
namespace {

bool IsReadable(int descriptor, int timeout_ms) {
  pollfd waited{descriptor, POLLIN, 0};
  return ::poll(&waited, 1, timeout_ms) == 1 && (waited.revents & POLLIN) != 0;
}

// A child that waits to be killed.
pid_t StartChild() {
  const pid_t child = ::fork();
  while (child == 0) ::pause();
  return child;
}

TEST(ProcessExitTest, TellsOfAKilledProcess) {
  const pid_t child = StartChild();
  ASSERT_GT(child, 0);
  const FileDescriptor exit = WatchProcessExit(child);
  ASSERT_TRUE(exit.valid());
  EXPECT_FALSE(IsReadable(exit.get(), 0));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(IsReadable(exit.get(), 60'000));
  ::waitpid(child, nullptr, 0);
}

TEST(ProcessExitTest, SaysThatAProcessHasGoneAlready) {
  const pid_t child = StartChild();
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  errno = 0;
  EXPECT_FALSE(WatchProcessExit(child).valid());
  EXPECT_EQ(errno, ESRCH);
}

TEST(ProcessExitTest, WatchesNobodyWhereTheSystemNamesNobody) {
  errno = 0;
  EXPECT_FALSE(WatchProcessExit(0).valid());
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace mlxcomm::platform

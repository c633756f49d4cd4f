// A descriptor that tells of a process's end.
#include "daemon/platform/process_exit.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/forked_child.h"

namespace mlxcomm::platform::process_exit_test {
namespace {

bool IsReadable(int descriptor, int timeout_ms) {
  pollfd waited{descriptor, POLLIN, 0};
  return ::poll(&waited, 1, timeout_ms) == 1 && (waited.revents & POLLIN) != 0;
}

// What a child does that waits to be killed.
bool Wait() {
  for (;;) ::pause();
}

TEST(ProcessExitTest, TellsOfAKilledProcess) {
  ForkedChild child(Wait);
  ASSERT_GT(child.pid(), 0);
  const FileDescriptor exit = WatchProcessExit(child.pid());
  ASSERT_TRUE(exit.valid());
  EXPECT_FALSE(IsReadable(exit.get(), 0));
  ASSERT_TRUE(child.Kill());
  EXPECT_TRUE(IsReadable(exit.get(), kNeverMs));
}

TEST(ProcessExitTest, SaysThatAProcessHasGoneAlready) {
  ForkedChild child(Wait);
  const pid_t pid = child.pid();
  ASSERT_TRUE(child.Kill());
  ASSERT_NE(child.Wait(), -1);
  errno = 0;
  EXPECT_FALSE(WatchProcessExit(pid).valid());
  EXPECT_EQ(errno, ESRCH);
}

TEST(ProcessExitTest, WatchesNobodyWhereTheSystemNamesNobody) {
  errno = 0;
  EXPECT_FALSE(WatchProcessExit(0).valid());
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace mlxcomm::platform::process_exit_test

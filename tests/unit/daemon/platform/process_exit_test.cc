// A descriptor that reports that a process has exited.
#include "daemon/platform/process_exit.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/platform/system_facts.h"
#include "tests/unit/forked_child.h"

namespace mlxcomm::platform::process_exit_test {
namespace {

bool IsReadable(int descriptor, int timeout_ms) {
  pollfd waited{descriptor, POLLIN, 0};
  return ::poll(&waited, 1, timeout_ms) == 1 && (waited.revents & POLLIN) != 0;
}

// Runs in a child that waits to be killed.
bool Wait() {
  for (;;) ::pause();
}

TEST(ProcessExitTest, ReportsAKilledProcess) {
  ForkedChild child(Wait);
  ASSERT_GT(child.pid(), 0);
  const ProcessExit exit = ProcessExit::Watch(child.pid());
  ASSERT_TRUE(exit.valid());
  EXPECT_FALSE(IsReadable(exit.descriptor(), 0));
  ASSERT_TRUE(child.Kill());
  EXPECT_TRUE(IsReadable(exit.descriptor(), kNeverMs));
}

// Why: a process may have several sessions, and ends them in any order. macOS watches the process
// once; the end of one session must not stop the notification of the others.
TEST(ProcessExitTest, NotifiesAllWatchersOfOneProcess) {
  ForkedChild child(Wait);
  const ProcessExit first = ProcessExit::Watch(child.pid());
  {
    const ProcessExit given_up = ProcessExit::Watch(child.pid());
    ASSERT_TRUE(given_up.valid());
  }
  ProcessExit moved = ProcessExit::Watch(child.pid());
  const ProcessExit last = std::move(moved);
  EXPECT_FALSE(moved.valid());  // NOLINT: what was moved from is empty.
  EXPECT_FALSE(IsReadable(first.descriptor(), 0));
  ASSERT_TRUE(child.Kill());
  EXPECT_TRUE(IsReadable(first.descriptor(), kNeverMs));
  EXPECT_TRUE(IsReadable(last.descriptor(), kNeverMs));
}

// Why: clients that connect again and again must not leak a descriptor each time.
TEST(ProcessExitTest, ClosesItsDescriptorsWhileTheProcessLives) {
  ForkedChild child(Wait);
  ASSERT_TRUE(ProcessExit::Watch(child.pid()).valid());  // Creates the shared objects.
  const std::uint64_t before = OpenFiles();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(ProcessExit::Watch(child.pid()).valid());
  EXPECT_EQ(OpenFiles(), before);
  ASSERT_TRUE(child.Kill());
}

TEST(ProcessExitTest, ReportsThatAProcessHasAlreadyExited) {
  ForkedChild child(Wait);
  const pid_t pid = child.pid();
  ASSERT_TRUE(child.Kill());
  ASSERT_NE(child.Wait(), -1);
  errno = 0;
  EXPECT_FALSE(ProcessExit::Watch(pid).valid());
  EXPECT_EQ(errno, ESRCH);
}

TEST(ProcessExitTest, RefusesToWatchAnUnknownProcess) {
  errno = 0;
  EXPECT_FALSE(ProcessExit::Watch(0).valid());
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace mlxcomm::platform::process_exit_test

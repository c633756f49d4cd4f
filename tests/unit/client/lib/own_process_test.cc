// The process's identity, in children and their children.
#include "client/lib/own_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>

#include <csignal>
#endif

#include "tests/unit/forked_child.h"

namespace mlxcomm::client::own_process_test {
namespace {

// OwnProcess() distinguishes this process and, `deeper` forks below it, its children.
bool NotifiesChildren(int deeper) {
  ForkedChild child(
      [&] { return OwnProcess() == ::getpid() && (deeper == 0 || NotifiesChildren(deeper - 1)); });
  return child.Wait() == 0;
}

TEST(OwnProcessTest, IsWhatTheSystemSays) {
  EXPECT_EQ(OwnProcess(), ::getpid());
  EXPECT_EQ(OwnProcess(), ::getpid()) << "as kept";
}

// Why: a child begins with its parent's memory, and would think that it is the parent.
TEST(OwnProcessTest, IsAnotherOneInEachForkedChild) {
  const int parent = OwnProcess();
  EXPECT_TRUE(NotifiesChildren(2));
  EXPECT_EQ(OwnProcess(), parent);
}

#if defined(__linux__)
// Why: a fork that bypasses the C library runs no handlers, and its child can still call us.
TEST(OwnProcessTest, IsAnotherOneInAChildThatTheLibraryDidNotHearOf) {
  const int parent = OwnProcess();
  const long child = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) {
    EndWithoutFail();
    ::_exit(OwnProcess() != parent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(static_cast<pid_t>(child), &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace mlxcomm::client::own_process_test

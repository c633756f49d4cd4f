#include "client/mpi/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace mlxcomm::mpi {
namespace {

int g_heard = 0;
void Hear(int) { ++g_heard; }

// One test, for a handler is set once in a process.
// Why: Python's own handler must still hear what this one has seen, and a Ctrl-C between two
// waits is Python's alone: the next wait does not end by it.
TEST(InterruptTest, IsSeenByTheWaitAndHandedOnToWhoHadItBefore) {
  struct sigaction action {};
  action.sa_handler = Hear;
  ASSERT_EQ(::sigaction(SIGINT, &action, nullptr), 0);
  {
    const UnderWay waiting;
    EXPECT_EQ(WasInterrupted(nullptr), 0);
    ::raise(SIGINT);
    EXPECT_EQ(WasInterrupted(nullptr), 1);
    EXPECT_EQ(g_heard, 1);
    const UnderWay another;
    EXPECT_EQ(WasInterrupted(nullptr), 1);  // It is meant for all that wait.
  }
  ::raise(SIGINT);
  EXPECT_EQ(g_heard, 2);
  const UnderWay later;
  EXPECT_EQ(WasInterrupted(nullptr), 0);
}

}  // namespace
}  // namespace mlxcomm::mpi

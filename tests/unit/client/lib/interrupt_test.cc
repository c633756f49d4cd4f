#include "client/lib/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace mlxcomm::client::interrupt_test {
namespace {

std::atomic<int> g_heard{0};
void Hear(int) { ++g_heard; }

struct sigaction Set(void (*handler)(int)) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = handler;
  EXPECT_EQ(::sigaction(SIGINT, &action, &before), 0);
  return before;
}

// The first handler is kept for the process's life: the same in all tests.
class InterruptTest : public testing::Test {
 protected:
  InterruptTest() {
    Set(Hear);
    const UnderWay watching;
    g_heard = 0;
  }
};

// Why: Python's own handler must also get the signals that this one has seen, and a Ctrl-C between
// two waits belongs only to Python: it does not end the next wait.
TEST_F(InterruptTest, IsSeenByTheWaitAndHandedOnToWhoHadItBefore) {
  {
    const UnderWay waiting;
    EXPECT_EQ(WasInterrupted(nullptr), 0);
    ::raise(SIGINT);
    EXPECT_EQ(WasInterrupted(nullptr), 1);
    EXPECT_EQ(g_heard, 1);
    const UnderWay another;
    EXPECT_EQ(WasInterrupted(nullptr), 1);  // It is meant for all waits.
  }
  ::raise(SIGINT);
  EXPECT_EQ(g_heard, 2);
  const UnderWay later;
  EXPECT_EQ(WasInterrupted(nullptr), 0);
}

int g_heard_later = 0;
void HearLater(int) { ++g_heard_later; }

// Why: signal.signal(signal.SIGINT, ...) after the first operation replaces our handler by one that
// does not know ours, and later waits would last until the other ranks call.
TEST_F(InterruptTest, IsSeenAlsoWhereAHandlerWasSetSinceTheLastWait) {
  Set(HearLater);
  const UnderWay waiting;
  g_heard_later = 0;
  ::raise(SIGINT);
  EXPECT_EQ(WasInterrupted(nullptr), 1);
  EXPECT_EQ(g_heard_later, 1);
  EXPECT_EQ(g_heard, 0) << "it was replaced";
}

// Waits until two threads are in it.
std::atomic<int> g_in_handler{0};
void AwaitOther(int) {
  ++g_in_handler;
  while (g_in_handler < 2 && g_heard == 0) std::this_thread::yield();
}

// Why: the depth of nested handlers is per thread; two threads that are interrupted at once are not
// nested.
TEST_F(InterruptTest, ReachesTheLatestHandlerInTwoThreadsAtOnce) {
  Set(AwaitOther);
  const UnderWay waiting;
  g_in_handler = 0;
  std::thread other([] { ::raise(SIGINT); });
  ::raise(SIGINT);
  other.join();
  EXPECT_EQ(g_in_handler, 2);
  EXPECT_EQ(g_heard, 0) << "it was replaced";
}

// Another library that does the same; libmlxcomm_mpi beside the Python extension is one.
struct sigaction g_others_first;
struct sigaction g_others_latest;
int g_others_depth = 0;
void HandOn(int signal) {
  const struct sigaction& next = g_others_depth == 0 ? g_others_latest : g_others_first;
  if (g_others_depth < 2) {
    ++g_others_depth;
    next.sa_sigaction(signal, nullptr, nullptr);
    --g_others_depth;
  }
}

// Why: two handlers that put themselves in front of each other would call each other forever, or
// skip the handler that was there first.
TEST_F(InterruptTest, ReachesTheFirstOnceThroughAnotherThatPutsItselfInFrontToo) {
  g_others_first = g_others_latest = Set(HandOn);
  ::raise(SIGINT);
  EXPECT_EQ(g_heard, 1) << "the other in front";
  {
    const UnderWay waiting;
    ::raise(SIGINT);
    EXPECT_EQ(g_heard, 2) << "ours in front";
    EXPECT_EQ(WasInterrupted(nullptr), 1);
  }
  g_others_latest = Set(HandOn);
  ::raise(SIGINT);
  EXPECT_EQ(g_heard, 3) << "the other in front again";
}

// Why: a shell that runs the program in the background ignores SIGINT, and it must stay ignored.
TEST_F(InterruptTest, StaysIgnoredWhereItIs) {
  Set(SIG_IGN);
  const UnderWay waiting;
  ::raise(SIGINT);
  EXPECT_EQ(WasInterrupted(nullptr), 0);
}

// Why: a handler that returns, as in C programs, only requests a flag.
TEST_F(InterruptTest, GoesOnAfterTheFirstWhereHandlersReturn) {
  Watch(SIGINT, OnSignal::kSecond);
  {
    const UnderWay waiting;
    ::raise(SIGINT);
    EXPECT_EQ(WasInterrupted(nullptr), 0);
    ::raise(SIGINT);
    EXPECT_EQ(WasInterrupted(nullptr), 1);
  }
  const UnderWay later;
  ::raise(SIGINT);
  EXPECT_EQ(WasInterrupted(nullptr), 0) << "each wait begins again";
  Watch(SIGINT, OnSignal::kAtOnce);
}

TEST_F(InterruptTest, WritesArrivalsToThePipe) {
  const int pipe = ArrivalsPipe();
  ASSERT_GE(pipe, 0);
  Watch(SIGINT, OnSignal::kAsked);
  const UnderWay waiting;
  const std::uint32_t before = Arrived(SIGINT);
  ::raise(SIGINT);
  EXPECT_EQ(Arrived(SIGINT), before + 1);
  char number = 0;
  ASSERT_EQ(::read(pipe, &number, 1), 1);
  EXPECT_EQ(number, SIGINT);
  EXPECT_EQ(WasInterrupted(nullptr), 0);
  EXPECT_TRUE(AnyUnderWay());
  Interrupt();
  EXPECT_EQ(WasInterrupted(nullptr), 1);
  Watch(SIGINT, OnSignal::kAtOnce);
}

}  // namespace
}  // namespace mlxcomm::client::interrupt_test

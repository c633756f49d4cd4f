// What a program can do with an operation in progress: test it, cancel it, be interrupted while
// waiting for it.
#include <gmock/gmock.h>

#include <cstdint>
#include <future>
#include <thread>

#include "client/lib/mlxcomm.h"
#include "tests/unit/client/lib/session_fixture.h"

namespace mlxcomm::client::tickets_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Rank 0 of 2.
class TicketsTest : public SessionTest {
 protected:
  TicketsTest() : SessionTest(0, 2) {}
  mlxcomm_code Test(std::uint64_t ticket) { return mlxcomm_test(group, ticket, &done, &error); }
  // The daemon fails an operation as soon as it is asked.
  void CancelAtOnce() {
    attach.cancel = [this](const FakeAttach::CancelCall& call) {
      EXPECT_EQ(call.group, kWorld);
      daemon.Complete(call.ticket, MLXCOMM_CANCELLED, "rank 0 cancelled it", 0, true);
    };
  }
  int done = -1;
};

TEST_F(TicketsTest, TestSaysWhetherAnOperationHasEndedAndThenHow) {
  const std::uint64_t ticket = Barrier();
  EXPECT_EQ(Test(ticket), MLXCOMM_OK);
  EXPECT_EQ(done, 0);
  daemon.Complete(ticket, MLXCOMM_RANK_LOST, "rank 1 is gone", 1, true);
  EXPECT_EQ(Test(ticket), MLXCOMM_RANK_LOST);
  EXPECT_EQ(done, 1);
  EXPECT_STREQ(error.message, "rank 1 is gone");
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_RANK_LOST);
  EXPECT_EQ(Test(ticket), MLXCOMM_INVALID_ARGUMENT) << "it is used up";
  EXPECT_EQ(done, 1) << "or a loop until it is done would never end";
}

// Why: a program that only tests never sleeps on the doorbell.
TEST_F(TicketsTest, TestFindsADeadDaemon) {
  const std::uint64_t well = Barrier();
  const std::uint64_t open = Barrier();
  daemon.Complete(well);
  daemon.Die();
  EXPECT_EQ(Test(open), MLXCOMM_DAEMON_LOST);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(Test(well), MLXCOMM_OK) << "what had ended before has ended well";
  EXPECT_EQ(done, 1);
}

TEST_F(TicketsTest, TestLeavesTheRingToTheThreadThatWaits) {
  const std::uint64_t waited = Barrier();
  const std::uint64_t tested = Barrier();
  std::thread waiter([&] {
    mlxcomm_error own{};
    EXPECT_EQ(mlxcomm_wait(group, waited, &own), MLXCOMM_OK) << own.message;
  });
  while (!daemon.client_sleeps()) std::this_thread::yield();
  EXPECT_EQ(Test(tested), MLXCOMM_OK);
  EXPECT_EQ(done, 0);
  daemon.Complete(tested);
  daemon.Complete(waited);
  waiter.join();
  EXPECT_EQ(Test(tested), MLXCOMM_OK) << error.message;
  EXPECT_EQ(done, 1);
}

TEST_F(TicketsTest, CancelFailsTheGroupAndGivesTheBuffersBack) {
  float* const buffer = Allocate(FakeDaemon::kArenaBytes);
  std::uint64_t ticket = 0;
  ASSERT_EQ(Reduce(buffer, 16, ticket), MLXCOMM_OK) << error.message;
  CancelAtOnce();
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 0, &error), MLXCOMM_CANCELLED);
  EXPECT_STREQ(error.message, "rank 0 cancelled it");
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_CANCELLED);
  EXPECT_EQ(Wait(ticket), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("a ticket can be waited for only once"));
  mlxcomm_buffer_free(connection, buffer);
  Allocate(FakeDaemon::kArenaBytes);
}

TEST_F(TicketsTest, CancelComesTooLateForWhatHasEnded) {
  const std::uint64_t ticket = Barrier();
  daemon.Complete(ticket);
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 0, &error), MLXCOMM_OK) << error.message;
  EXPECT_THAT(attach.Log(), IsEmpty());
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK);
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 0, &error), MLXCOMM_INVALID_ARGUMENT);
}

// Why: the caller still owns the ticket, and may not touch the buffers yet.
TEST_F(TicketsTest, CancelKeepsTheTicketWhenTheDaemonDoesNotLetGoInTime) {
  const std::uint64_t ticket = Barrier();
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 1'000'000, &error), MLXCOMM_DEADLINE_EXCEEDED);
  EXPECT_THAT(error.message, HasSubstr("may still use"));
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK) << "only the daemon fails a group";
  daemon.Complete(ticket, MLXCOMM_CANCELLED, "rank 0 cancelled it", 0, true);
  EXPECT_EQ(Wait(ticket), MLXCOMM_CANCELLED);
  EXPECT_THAT(attach.Log(), ElementsAre("cancel 7"));
}

// Why: DEADLINE_EXCEEDED means that the ticket is kept, and may also be an operation's own end.
TEST_F(TicketsTest, CancelKeepsTheTicketOfWhatHadEndedAtItsDeadline) {
  const std::uint64_t ticket = Barrier();
  daemon.Complete(ticket, MLXCOMM_DEADLINE_EXCEEDED, "rank 1 did not come", 1, true);
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 0, &error), MLXCOMM_DEADLINE_EXCEEDED);
  EXPECT_EQ(Wait(ticket), MLXCOMM_DEADLINE_EXCEEDED);
  EXPECT_STREQ(error.message, "rank 1 did not come");
  EXPECT_EQ(Wait(ticket), MLXCOMM_INVALID_ARGUMENT);
}

TEST_F(TicketsTest, CancelEndsTheWaitOfAnotherThread) {
  const std::uint64_t ticket = Barrier();
  auto waiter = std::async(std::launch::async, [&] {
    mlxcomm_error own{};
    return mlxcomm_wait(group, ticket, &own);
  });
  while (!daemon.client_sleeps()) std::this_thread::yield();
  CancelAtOnce();
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 0, &error), MLXCOMM_CANCELLED) << error.message;
  // One of the two gets the daemon's answer, the other learns that the ticket is used up.
  const mlxcomm_code reported = waiter.get();
  EXPECT_TRUE(reported == MLXCOMM_CANCELLED || reported == MLXCOMM_INVALID_ARGUMENT) << reported;
}

TEST_F(TicketsTest, CancelHearsOfADeadDaemon) {
  const std::uint64_t ticket = Barrier();
  attach.cancel = [this](const FakeAttach::CancelCall&) { daemon.Die(); };
  EXPECT_EQ(mlxcomm_cancel(group, ticket, 0, &error), MLXCOMM_DAEMON_LOST);
}

// --- without an end ----------------------------------------------------------------------
// These wait for the eight seconds after which the daemon is asked about an operation beyond its
// timeout.

// Why: the process has other groups, which work.
TEST_F(TicketsTest, WhereTheDaemonLivesAnOperationWithoutAnEndFailsItsGroupAlone) {
  float* const buffer = Allocate(FakeDaemon::kArenaBytes);
  std::uint64_t ticket = 0;
  ASSERT_TRUE(Ok(mlxcomm_all_reduce(group, buffer, buffer, 16, MLXCOMM_FLOAT32, MLXCOMM_SUM, 1,
                                    &ticket, &error)));
  attach.cancel = [](const FakeAttach::CancelCall&) {};  // It answers, and does nothing else.
  EXPECT_EQ(Wait(ticket), MLXCOMM_DEADLINE_EXCEEDED);
  EXPECT_THAT(error.message, HasSubstr("still uses its buffers, though mlxcommd is alive"));
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_DEADLINE_EXCEEDED);
  EXPECT_EQ(Wait(ticket), MLXCOMM_INVALID_ARGUMENT) << "it is used up";
  // Its buffer stays pinned until it finally ends.
  mlxcomm_buffer_free(connection, buffer);
  void* again = nullptr;
  EXPECT_EQ(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &again, &error),
            MLXCOMM_RESOURCE_EXHAUSTED);
  daemon.Complete(ticket, MLXCOMM_DEADLINE_EXCEEDED, "late", -1, true);
  EXPECT_TRUE(Ok(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &again, &error)));
}

// Why: a daemon that hung ends it once it is asked, and nothing uses the buffers then.
TEST_F(TicketsTest, WhereTheDaemonEndsItWhenAskedThatEndIsTold) {
  attach.cancel = [this](const FakeAttach::CancelCall& call) {
    daemon.Complete(call.ticket, MLXCOMM_DEADLINE_EXCEEDED, "rank 1 did not come", 1, true);
  };
  std::uint64_t ticket = 0;
  ASSERT_EQ(mlxcomm_barrier(group, 1, &ticket, &error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(Wait(ticket), MLXCOMM_DEADLINE_EXCEEDED);
  EXPECT_STREQ(error.message, "rank 1 did not come");
}

// Why: the daemon had not read it yet, and reports that it was cancelled, which nothing requested.
TEST_F(TicketsTest, WhatTheDaemonLearnsOfTooLateHasMissedItsDeadline) {
  CancelAtOnce();
  std::uint64_t ticket = 0;
  ASSERT_EQ(mlxcomm_barrier(group, 1, &ticket, &error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(Wait(ticket), MLXCOMM_DEADLINE_EXCEEDED);
  EXPECT_THAT(error.message, HasSubstr("mlxcommd hung"));
}

// Why: a message's circle is asked about early. A daemon that hangs has as much time as for
// everything else, but not more than the deadline allows.
TEST_F(TicketsTest, ADaemonHasTimeToAnswerUntilTheWaitsLimit) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  float* const buffer = Allocate(sizeof(float));
  for (const std::uint64_t timeout_ns : {kSecond / 2, 100 * kSecond}) {
    std::uint64_t ticket = 0;
    std::uint64_t patience = 0;
    attach.awaited = [&](std::uint64_t patience_ns) {
      patience = patience_ns;
      daemon.Complete(ticket);
    };
    ASSERT_TRUE(
        Ok(mlxcomm_send(group, buffer, 1, MLXCOMM_FLOAT32, 1, 0, timeout_ns, &ticket, &error)));
    EXPECT_EQ(Wait(ticket), MLXCOMM_OK) << error.message;
    // Asked a second after the call, or later if the machine is slow.
    EXPECT_LE(patience, timeout_ns < kSecond ? timeout_ns + 9 * kSecond : 19 * kSecond);
    EXPECT_GT(patience, timeout_ns < kSecond ? kSecond : 10 * kSecond);
  }
}

TEST_F(TicketsTest, ADaemonThatDoesNotAnswerIsLost) {
  std::uint64_t ticket = 0;
  ASSERT_EQ(mlxcomm_barrier(group, 1, &ticket, &error), MLXCOMM_OK) << error.message;
  mlxcomm_code code = MLXCOMM_OK;
  while (done == 0 || done == -1) {
    code = Test(ticket);
    std::this_thread::yield();
  }
  EXPECT_EQ(code, MLXCOMM_DAEMON_LOST);
  EXPECT_THAT(error.message, HasSubstr("does not answer"));
}

// Why: after Ctrl-C the user must have control in 200 ms, and the other ranks must not wait for a
// process that has given up.
TEST_F(TicketsTest, AnInterruptedWaitCancelsTheOperationForAll) {
  float* const buffer = Allocate(FakeDaemon::kArenaBytes);
  std::uint64_t ticket = 0;
  ASSERT_EQ(Reduce(buffer, 16, ticket), MLXCOMM_OK) << error.message;
  std::vector<FakeAttach::CancelCall> calls;
  attach.cancel = [&](const FakeAttach::CancelCall& call) { calls.push_back(call); };
  interrupt = true;
  EXPECT_EQ(Wait(ticket), MLXCOMM_CANCELLED);
  EXPECT_THAT(error.message, HasSubstr("interrupted while waiting for all_reduce"));
  interrupt = false;
  EXPECT_THAT(calls, ElementsAre(FakeAttach::CancelCall{kWorld, ticket}));
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_CANCELLED);
  EXPECT_EQ(Wait(ticket), MLXCOMM_INVALID_ARGUMENT) << "it is used up";
}

// Why: nothing waits for a failed group, so nothing would notice that its operation has ended.
TEST_F(TicketsTest, WhatWasGivenUpIsLetGoWhenTheDaemonSaysSo) {
  float* const buffer = Allocate(FakeDaemon::kArenaBytes / 2);
  std::uint64_t given_up = 0;
  ASSERT_EQ(Reduce(buffer, 16, given_up), MLXCOMM_OK) << error.message;
  interrupt = true;
  EXPECT_EQ(Wait(given_up), MLXCOMM_CANCELLED);
  interrupt = false;
  mlxcomm_buffer_free(connection, buffer);
  void* all = nullptr;
  EXPECT_EQ(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &all, &error),
            MLXCOMM_RESOURCE_EXHAUSTED);
  daemon.Complete(given_up, MLXCOMM_CANCELLED, "given up", 0, true);
  EXPECT_TRUE(Ok(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &all, &error)));
}

}  // namespace
}  // namespace mlxcomm::client::tickets_test

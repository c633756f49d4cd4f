// Operations that the ranks of a group carry out directly, through the C interface: the test makes
// the daemon's moves (fake_daemon.h) and those of the other rank, on a page that both share.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/lib/meeting.h"
#include "daemon/platform/shared_memory.h"
#include "proto/meeting/rank_side.h"
#include "proto/meeting/supervisor_side.h"
#include "tests/unit/client/lib/session_fixture.h"

namespace mlxcomm::client::connection_pages_test {
namespace {

using meeting::Way;

constexpr std::uint64_t kMs = 1'000'000;
constexpr auto kRefused = static_cast<std::uint8_t>(FailureCode::kResourceExhausted);

// Rank 0 of 2, joined, with a page that it has mapped.
class ConnectionPagesTest : public SessionTest {
 protected:
  ConnectionPagesTest() : SessionTest(0, 2) {
    auto made = platform::SharedSegment::Create("page", meeting::PageBytes(2));
    EXPECT_TRUE(made.ok());
    page = std::make_unique<platform::SharedSegment>(*std::move(made));
    const meeting::PageView view(page->data(), 2);
    supervisor = std::make_unique<meeting::SupervisorSide<>>(view, kWorld);
    other = std::make_unique<meeting::RankSide<>>(view, 1, 0);
    buffer = Allocate(4096);
    daemon.PassPage(page->descriptor());
    // The client checks its doorbell when it asks for an operation that has not ended.
    const std::uint64_t first = Barrier();
    int done = 0;
    EXPECT_EQ(mlxcomm_test(group, first, &done, &error), MLXCOMM_OK) << error.message;
    daemon.Complete(daemon.Take().ticket);
    EXPECT_EQ(Wait(first), MLXCOMM_OK) << error.message;
    OtherCalls(OperationKind::kBarrier);
    // From its next call on it uses the page, as soon as that is open.
    EndByDaemon();
  }

  // A barrier of both ranks that the daemon carries out.
  void EndByDaemon() {
    const std::uint64_t ticket = Barrier();
    daemon.Complete(daemon.Take().ticket);
    EXPECT_EQ(Wait(ticket), MLXCOMM_OK) << error.message;
    OtherCalls(OperationKind::kBarrier);
  }
  void Open() {
    ASSERT_TRUE(supervisor->IsReady(0)) << "it has not mapped the page";
    ASSERT_TRUE(supervisor->Reopen());
    EndByDaemon();
    EndByDaemon();
  }
  // Opens the page, sums once, and frees the buffer while its second call waits.
  std::thread FreeWhileItsCallWaits(mlxcomm_code code) {
    Open();
    buffer[0] = buffer[1] = 1;
    const meeting::Called first = OtherCalls(OperationKind::kAllReduce, 2);
    EXPECT_EQ(Sum(), MLXCOMM_OK) << error.message;
    other->End(first.number);
    std::thread caller([this, code, place = buffer] {
      mlxcomm_error failure{};
      EXPECT_EQ(Sum(place, failure), code) << failure.message;
    });
    while (supervisor->CalledBy(0) != 6) std::this_thread::yield();
    mlxcomm_buffer_free(connection, buffer);
    return caller;
  }
  // The other rank brings that number, twice.
  meeting::Called OtherCalls(OperationKind kind, float number = 0) {
    numbers.assign(2, number);
    queue::SubmissionEntry entry{};
    const bool sums = kind == OperationKind::kAllReduce;
    const meeting::CallWords call =
        meeting::WordsOf(kind, DataType::kFloat32,
                         sums ? ReduceOperator::kSum : ReduceOperator::kNone, 0, sums ? 2 : 0);
    const std::uint64_t bytes = sums ? numbers.size() * sizeof(float) : 0;
    return other->Call({call, true, reinterpret_cast<const std::byte*>(numbers.data()), bytes, 1},
                       entry);
  }
  // Requests a sum and does not wait.
  std::uint64_t Begin(std::uint64_t timeout_ns = 0) {
    std::uint64_t ticket = 0;
    EXPECT_TRUE(Ok(mlxcomm_all_reduce(group, buffer, buffer, 2, MLXCOMM_FLOAT32, MLXCOMM_SUM,
                                      timeout_ns, &ticket, &error)));
    return ticket;
  }
  mlxcomm_code Sum() { return Sum(buffer, error); }
  // For a thread next to the test's, which uses `error` and may put another buffer there.
  mlxcomm_code Sum(float* own, mlxcomm_error& failure) {
    return mlxcomm_all_reduce(group, own, own, 2, MLXCOMM_FLOAT32, MLXCOMM_SUM, 0, nullptr,
                              &failure);
  }

  std::unique_ptr<platform::SharedSegment> page;
  std::unique_ptr<meeting::SupervisorSide<>> supervisor;
  std::unique_ptr<meeting::RankSide<>> other;
  std::vector<float> numbers;
  float* buffer = nullptr;
};

TEST_F(ConnectionPagesTest, ACallThatWaitsMeetsTheOtherRankAtOnce) {
  Open();
  for (int round = 1; round < 100; ++round) {
    buffer[0] = buffer[1] = static_cast<float>(round);
    const meeting::Called theirs = OtherCalls(OperationKind::kAllReduce, 0.5F);
    ASSERT_EQ(theirs.way, Way::kPage) << round;
    ASSERT_EQ(Sum(), MLXCOMM_OK) << error.message;
    ASSERT_EQ(buffer[1], static_cast<float>(round) + 0.5F);
    other->End(theirs.number);
  }
}

// Why: operations that meet at once remember the existing buffers, and pin none.
TEST_F(ConnectionPagesTest, ABufferThatWasFreedIsRefusedThoughTheLastCallUsedIt) {
  Open();
  buffer[0] = buffer[1] = 1;
  const auto sum = [&] {
    const meeting::Called theirs = OtherCalls(OperationKind::kAllReduce, 2);
    ASSERT_EQ(Sum(), MLXCOMM_OK) << error.message;
    other->End(theirs.number);
  };
  sum();
  sum();
  const void* const place = buffer;
  mlxcomm_buffer_free(connection, buffer);
  EXPECT_EQ(Sum(), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("has not been freed"), std::string::npos)
      << error.message;
  buffer = Allocate(4096);
  ASSERT_EQ(buffer, place) << "the range freed last is used first";
  sum();
}

// How: the buffer is freed while the call that uses it waits; the call pins it as soon as it has to
// wait.
TEST_F(ConnectionPagesTest, ABufferThatIsFreedWhileItsCallWaitsStaysUntilThatHasEnded) {
  std::thread caller = FreeWhileItsCallWaits(MLXCOMM_OK);
  float* const place = buffer;
  EXPECT_NE(Allocate(4096), place);
  EXPECT_EQ(OtherCalls(OperationKind::kAllReduce, 2).way, Way::kPage);
  caller.join();
  EXPECT_EQ(place[0], 5);
  EXPECT_EQ(Allocate(4096), place);
}

// The same if the daemon takes over the operation, and may still write.
TEST_F(ConnectionPagesTest, ABufferThatIsFreedStaysUntilTheDaemonHasEndedItsCall) {
  std::thread caller = FreeWhileItsCallWaits(MLXCOMM_RANK_LOST);
  float* const place = buffer;
  ASSERT_EQ(daemon.Take().purpose, queue::SubmissionPurpose::kClose);
  std::vector<meeting::Adopted> adopted;
  supervisor->Close(adopted);
  ASSERT_EQ(adopted.size(), 1u);
  daemon.Complete(0);
  EXPECT_NE(Allocate(4096), place);
  daemon.Complete(adopted[0].entry.ticket, static_cast<std::uint8_t>(FailureCode::kRankLost),
                  "rank 1 is lost", 1, /*group_failed=*/true);
  caller.join();
  EXPECT_EQ(Allocate(4096), place);
}

// How: parts of one buffer, all remembered with it, up to its last byte, and bytes beyond. Buffers
// are whole pages, of 16 KiB on Apple's chips.
TEST_F(ConnectionPagesTest, PartsOfABufferThatAnotherCallUsedAreTakenAndWhatLiesBeyondIsRefused) {
  Open();
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  float* const parts = Allocate(page);
  const std::uint64_t floats = page / sizeof(float);
  ASSERT_NE(Allocate(page), nullptr);
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{100}, floats - 2}) {
    parts[at] = parts[at + 1] = 1;
    const meeting::Called theirs = OtherCalls(OperationKind::kAllReduce, 2);
    ASSERT_TRUE(Ok(mlxcomm_all_reduce(group, parts + at, parts + at, 2, MLXCOMM_FLOAT32,
                                      MLXCOMM_SUM, 0, nullptr, &error)));
    EXPECT_EQ(parts[at + 1], 3);
    other->End(theirs.number);
  }
  EXPECT_EQ(mlxcomm_all_reduce(group, parts + floats - 1, parts + floats - 1, 2, MLXCOMM_FLOAT32,
                               MLXCOMM_SUM, 0, nullptr, &error),
            MLXCOMM_INVALID_ARGUMENT);
}

// Why: a session's threads share the remembered buffers.
TEST_F(ConnectionPagesTest, OneThreadMayFreeBuffersWhileAnotherCalls) {
  Open();
  std::atomic<bool> stop = false;
  std::thread frees([&] {
    while (!stop) {
      void* one = nullptr;
      if (mlxcomm_buffer_allocate(connection, 4096, &one, nullptr) != MLXCOMM_OK) continue;
      mlxcomm_buffer_free(connection, one);
    }
  });
  for (int round = 0; round < 200; ++round) {
    buffer[0] = buffer[1] = 1;
    const meeting::Called theirs = OtherCalls(OperationKind::kAllReduce, 2);
    ASSERT_EQ(Sum(), MLXCOMM_OK) << error.message;
    ASSERT_EQ(buffer[1], 3);
    other->End(theirs.number);
    mlxcomm_buffer_free(connection, buffer);
    buffer = Allocate(4096);
  }
  stop = true;
  frees.join();
}

// Why: a session's threads share what it has learnt about waits.
TEST_F(ConnectionPagesTest, CallsThatWaitInTwoThreadsMeetTheSameOfTheOtherRank) {
  Open();
  float* const another = Allocate(4096);
  const auto call = [&](float* own) {
    own[0] = own[1] = 1;
    mlxcomm_error failure{};
    EXPECT_EQ(
        mlxcomm_all_reduce(group, own, own, 2, MLXCOMM_FLOAT32, MLXCOMM_SUM, 0, nullptr, &failure),
        MLXCOMM_OK)
        << failure.message;
    EXPECT_EQ(own[0], 3);
  };
  for (int round = 0; round < 100; ++round) {
    std::thread one([&] { call(buffer); });
    std::thread two([&] { call(another); });
    for (int number = 0; number < 2; ++number) {
      const meeting::Called theirs = OtherCalls(OperationKind::kAllReduce, 2);
      EXPECT_EQ(theirs.way, Way::kPage);
      other->End(theirs.number);
    }
    one.join();
    two.join();
  }
}

TEST_F(ConnectionPagesTest, ACallThatWaitsReturnsWhatTheDaemonSays) {
  std::thread caller([&] {
    EXPECT_EQ(Sum(), MLXCOMM_MISMATCH);
    EXPECT_STREQ(error.message, "they differ");
  });
  daemon.Complete(daemon.Take().ticket, static_cast<std::uint8_t>(FailureCode::kMismatch),
                  "they differ", 1, /*group_failed=*/true);
  caller.join();
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_MISMATCH);
}

// Why: a deadline that is shorter than a rank's patience still counts; the daemon enforces it, and
// learns of the operation only once the page is closed.
// How: only the fastest of many hand-overs counts, because a busy machine may delay any of them.
TEST_F(ConnectionPagesTest, HandsAnOperationOverAtItsDeadline) {
  Open();
  std::uint64_t soonest_ns = UINT64_MAX;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto began = std::chrono::steady_clock::now();
    std::thread caller([&] {
      EXPECT_TRUE(Ok(mlxcomm_all_reduce(group, buffer, buffer, 2, MLXCOMM_FLOAT32, MLXCOMM_SUM,
                                        /*timeout_ns=*/kMs, nullptr, &error)));
    });
    ASSERT_EQ(daemon.Take().purpose, queue::SubmissionPurpose::kClose);
    const auto took = std::chrono::steady_clock::now() - began;
    soonest_ns =
        std::min(soonest_ns, static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count()));
    const meeting::Called theirs = OtherCalls(OperationKind::kAllReduce, 1);
    daemon.Complete(0);  // It has checked: the other rank has just called.
    caller.join();
    other->End(theirs.number);
  }
  EXPECT_LT(soonest_ns, Meeting::kPatienceNs);
}

// Why: an operation may end, and its group be left, while a thread sleeps over the page.
// How: the thread sleeps for 50 ms, if it gets a core soon enough; otherwise it asks the daemon,
// which has not checked, and begins again.
TEST_F(ConnectionPagesTest, APageStaysWhileAThreadLooksAtIt) {
  if (!meeting::CanPark()) GTEST_SKIP() << "nobody sleeps over a page here";
  Open();
  const std::uint64_t ticket = Begin();
  std::thread waiter([&] { (void)mlxcomm_wait(group, ticket, nullptr); });
  const meeting::PageView view(page->data(), 2);
  const std::uint64_t number = supervisor->CalledBy(0) - 1;
  while (view.offer(1, number).sleepers.load() == 0) {
    if (daemon.HasSubmission() && daemon.Take().ticket == 0) daemon.Complete(0);
    std::this_thread::yield();
  }
  // The daemon fails it; another thread notices, and leaves the job.
  daemon.Complete(ticket, static_cast<std::uint8_t>(FailureCode::kRankLost), "rank 1 is lost", 1,
                  /*group_failed=*/true);
  int done = 0;
  while (done == 0) (void)mlxcomm_test(group, ticket, &done, &error);
  mlxcomm_leave(group, "it has lost a rank");
  waiter.join();
}

// Why: an operation that the daemon refuses to begin does not count, and the same calls are made
// again. The other ranks have called them once.
TEST_F(ConnectionPagesTest, OfCallsThatWereRefusedNoneKeepsItsNumber) {
  Open();
  std::vector<meeting::Adopted> adopted;
  supervisor->Close(adopted);
  const std::uint64_t called = supervisor->CalledBy(0);
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<std::uint64_t> tickets;
    for (int call = 0; call < 3; ++call) {
      tickets.push_back(Begin());
      EXPECT_EQ(daemon.Take().tag, called + static_cast<std::uint64_t>(call));
    }
    for (const std::uint64_t ticket : tickets) daemon.Complete(ticket, kRefused, "too many");
    for (const std::uint64_t ticket : tickets) {
      EXPECT_EQ(Wait(ticket), MLXCOMM_RESOURCE_EXHAUSTED);
    }
    EXPECT_EQ(supervisor->CalledBy(0), called);
  }
}

}  // namespace
}  // namespace mlxcomm::client::connection_pages_test

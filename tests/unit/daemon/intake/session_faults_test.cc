// Processes that die, cheat, or write garbage: only their own session ends.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "daemon/intake/session.h"
#include "daemon/platform/machine.h"
#include "proto/queue/dial.h"
#include "tests/unit/daemon/intake/intake_fixture.h"
#include "tests/unit/forked_child.h"

namespace mlxcomm::intake::session_faults_test {
namespace {

using testing::HasSubstr;

class SessionFaultsTest : public IntakeFixture {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Open().ok());
    bystander = Connect();
    ASSERT_NE(bystander, nullptr);
    bystander_session = diary.opened.back();
  }
  void TearDown() override {
    if (bystander != nullptr) ExpectService(*bystander, bystander_session);
    EXPECT_EQ(diary.ended.count(bystander_session), 0u);
  }
  std::string WhyEnded(SessionId session) {
    if (!AwaitEnd(session)) return "it did not end";
    return std::string(diary.ended.at(session).message());
  }

  std::unique_ptr<LocalProcess> bystander;
  SessionId bystander_session = 0;
};

TEST_F(SessionFaultsTest, OutlivesItsConnection) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  client->CloseConnection();  // Only gRPC is concerned; the process lives on.
  ExpectService(*client, diary.opened.back());
}

// Why: a data loader forked from the training process inherits the doorbell, so the process's death
// does not close it.
// How: a child dials and forks; it is killed while its own child holds all its descriptors.
TEST_F(SessionFaultsTest, EndsWithItsProcessEvenIfAChildHoldsItsDoorbell) {
  int hold[2];
  int ready[2];
  ASSERT_TRUE(::pipe(hold) == 0 && ::pipe(ready) == 0);
  ForkedChild child([&] {
    ::close(hold[1]);
    queue::Dialed dialed;
    const bool welcome =
        queue::Dial(options.socket_path, queue::ProcessRole::kClient, 4096, 60'000'000'000, dialed)
            .ok();
    char byte = 0;
    if (::fork() == 0) {  // Until the test lets go.
      EndWithoutFail();
      while (::read(hold[0], &byte, 1) > 0) {
      }
      ::_exit(0);
    }
    byte = welcome ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) return false;
    for (;;) ::pause();
  });
  ASSERT_GT(child.pid(), 0);
  ::close(hold[0]);
  ASSERT_TRUE(Await([&] { return IsReadable(ready[0]); }));
  char welcome = 0;
  ASSERT_EQ(::read(ready[0], &welcome, 1), 1);
  ASSERT_EQ(welcome, 'y');
  const SessionId session = diary.opened.back();
  EXPECT_EQ(diary.peers[session].pid, child.pid());
  ASSERT_TRUE(child.Kill());
  EXPECT_THAT(WhyEnded(session), HasSubstr("process ended"));
  for (const int descriptor : {hold[1], ready[0], ready[1]}) ::close(descriptor);
}

TEST_F(SessionFaultsTest, AcceptsExactlyItsLimitInFlight) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  const SessionId session = diary.opened.back();
  for (std::uint64_t i = 0; i < Session::kInFlightMax; ++i) ASSERT_TRUE(client->Submit(Sum(i)));
  ASSERT_TRUE(Await([&] { return diary.taken.size() == Session::kInFlightMax; }));
  for (std::uint64_t i = 0; i < Session::kInFlightMax; ++i) {
    intake->Complete(session, i, 5, {}, false);
  }
  queue::CompletionEntry completion;
  for (std::uint64_t i = 0; i < Session::kInFlightMax; ++i) {
    ASSERT_EQ(client->completions().Pop(completion), queue::RingResult::kDone);
    ASSERT_EQ(completion.ticket, i);
  }
  ExpectService(*client, session);
}

TEST_F(SessionFaultsTest, EndsAClientWithMoreInFlightThanItsLimit) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  for (std::uint64_t i = 0; i <= Session::kInFlightMax; ++i) ASSERT_TRUE(client->Submit(Sum(i)));
  EXPECT_THAT(WhyEnded(diary.opened.back()), HasSubstr("more than 1023 operations"));
  EXPECT_EQ(diary.taken.size(), Session::kInFlightMax);
  EXPECT_EQ(intake->counters().ended_for_garbage, 1u);
}

TEST_F(SessionFaultsTest, EndsAClientThatNeverReadsItsCompletions) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  const SessionId session = diary.opened.back();
  diary.on_submission = [this](const collective::Call& call) {
    intake->Complete(call.session, call.ticket, 5, {}, false);
  };
  for (std::uint64_t i = 0; i <= queue::kCompletionSlots && diary.ended.empty(); ++i) {
    ASSERT_TRUE(client->Submit(Sum(i)));
    intake->Poll();
  }
  EXPECT_THAT(WhyEnded(session), HasSubstr("never reads"));
  diary.on_submission = nullptr;
}

// Why: a loop that reads as long as a client writes serves no other client.
TEST_F(SessionFaultsTest, ReadsALimitedPartOfAFloodedDoorbellAtOnce) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  const auto fill = [&] {
    const std::string bytes(1 << 12, 'x');
    std::size_t sent = 0;
    while (::send(client->doorbell(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) ++sent;
    return sent;
  };
  const std::size_t room = fill();
  io.restart();
  EXPECT_GT(io.poll(), 0u);
  ASSERT_TRUE(intake->PrepareToSleep());
  EXPECT_THAT(fill(), testing::AllOf(testing::Gt(0u), testing::Lt(room)));
}

// Why: a loop that never sleeps takes a core from computing threads.
TEST_F(SessionFaultsTest, RateLimitsADoorbellThatRingsWithoutSubmissions) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::uint32_t heard = 0;
  const std::uint64_t began_ns = platform::MonotonicNow();
  for (std::uint32_t i = 0; i < 10 * Session::kRingsForNothingMax; ++i) {
    const std::string bytes(1 << 10, 'x');
    (void)::send(client->doorbell(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    io.restart();
    heard += io.poll() > 0 ? 1 : 0;  // The ring, or the end of a pause.
    ASSERT_TRUE(intake->PrepareToSleep());
    intake->WakeUp();
  }
  const std::uint64_t pauses = (platform::MonotonicNow() - began_ns) / Intake::kPauseNs;
  EXPECT_LE(heard, Session::kRingsForNothingMax + 2 + 2 * pauses);
  // It is served again, as often as other clients.
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(client->Submit(Sum(i)));
  std::size_t taken = 0;
  while (taken == 0) {
    io.restart();
    io.poll();
    taken = intake->Poll();
  }
  EXPECT_EQ(taken, Intake::kSubmissionsPerTurn);
  EXPECT_TRUE(Await([&] { return diary.taken.size() == 100; }));
}

// Why: wrong operations cost more than others, and no program needs millions of them.
// How: the node answers a turn's submissions before the next turn.
TEST_F(SessionFaultsTest, RateLimitsAUsersFailingCalls) {
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  const SessionId session = diary.opened.back();
  std::uint64_t failed = 0;
  bool others_served = false;
  std::vector<std::uint64_t> open;
  diary.on_submission = [&](const collective::Call& call) {
    if (call.session == session) open.push_back(call.ticket);
    if (call.session == bystander_session) others_served = true;
  };
  const auto turn = [&] {
    intake->Poll();
    for (const std::uint64_t ticket : std::exchange(open, {})) {
      intake->Complete(session, ticket, 5, {FailureCode::kInvalidArgument, kNoRank, "wrong"},
                       false);
      ++failed;
    }
    queue::CompletionEntry completion;
    while (client->completions().Pop(completion) == queue::RingResult::kDone) {
    }
    io.restart();
    io.poll();
  };
  const double burst = Intake::kFailedCalls.burst;
  const auto wanted = static_cast<std::uint64_t>(burst) + 2000;
  const std::uint64_t began_ns = platform::MonotonicNow();
  std::uint64_t submitted = 0;
  while (failed < wanted) {
    while (submitted - failed < 500 && submitted < wanted)
      ASSERT_TRUE(client->Submit(Sum(++submitted)));
    turn();
    const double seconds = static_cast<double>(platform::MonotonicNow() - began_ns) / 1e9;
    ASSERT_LE(static_cast<double>(failed),
              burst + 2 * Intake::kSubmissionsPerTurn + Intake::kFailedCalls.per_second * seconds);
    if (failed > static_cast<std::uint64_t>(burst) && !others_served) {
      ASSERT_TRUE(bystander->Submit(Sum(1)));
      turn();
      ASSERT_TRUE(others_served) << "while the other session is paused";
    }
  }
  diary.on_submission = nullptr;
  intake->Complete(bystander_session, 1, 5, {}, false);
  queue::CompletionEntry completion;
  ASSERT_EQ(bystander->completions().Pop(completion), queue::RingResult::kDone);
}

// Writes garbage into shared memory. True: it must end the session.
bool Vandalise(LocalProcess& client, const queue::SubmissionEntry& fine, std::mt19937_64& random) {
  const auto garbage = [&random](void* memory, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      static_cast<unsigned char*>(memory)[i] = static_cast<unsigned char>(random());
    }
  };
  queue::SubmissionEntry entry = fine;
  switch (random() % 6) {
    case 0:  // A position ahead of all slots.
      client.header().submissions.written = queue::kSubmissionSlots + 1 + random() / 2;
      return true;
    case 1:  // Slots full of noise.
      garbage(client.queue_segment() + queue::kSubmissionsOffset,
              queue::kSubmissionSlots * sizeof(queue::SubmissionEntry));
      client.header().submissions.written = 1 + random() % queue::kSubmissionSlots;
      return false;  // The first may happen to be only wrong.
    case 2:          // A kind that does not exist.
      entry.kind = static_cast<OperationKind>(200 + random() % 50);
      (void)client.Submit(entry);
      return true;
    case 3:  // A few bytes of an entry.
      for (int i = 0; i < 4; ++i) {
        reinterpret_cast<unsigned char*>(&entry)[random() % sizeof entry] =
            static_cast<unsigned char>(random());
      }
      (void)client.Submit(entry);
      return false;
    case 4:  // A read position for completions that were never there, and something to complete.
      client.header().completions.read = 1 + random() % (std::uint64_t{1} << 60);
      entry.input_offset = ~std::uint64_t{0};
      (void)client.Submit(entry);
      return true;
    default:  // The whole header.
      garbage(client.queue_segment(), sizeof(queue::QueueHeader));
      return false;
  }
}

TEST_F(SessionFaultsTest, EndsOnlyTheSessionThatWritesGarbage) {
  std::mt19937_64 random(20'240'601);
  diary.on_submission = [&](const collective::Call& s) {
    const auto arena_bytes = static_cast<std::ptrdiff_t>(
        s.session == bystander_session ? bystander->answer().arena_bytes : 1 << 16);
    // Input and output are at the same offset: every accepted entry lies in one arena.
    if (s.input != nullptr && s.output != nullptr) {
      ASSERT_LE(std::abs(s.output - s.input), arena_bytes);
    }
    ASSERT_LE(s.input_bytes_available, static_cast<std::uint64_t>(arena_bytes));
    ASSERT_LE(s.output_bytes_available, static_cast<std::uint64_t>(arena_bytes));
    if (s.output_bytes_available > 0) s.output[s.output_bytes_available - 1] = std::byte{1};
  };
  for (int i = 0; i < 1000; ++i) {
    auto client = Connect();
    ASSERT_NE(client, nullptr);
    const SessionId session = diary.opened.back();
    const bool certain = Vandalise(*client, Sum(1), random);
    intake->Poll();
    if (certain) {
      EXPECT_THAT(WhyEnded(session), HasSubstr("garbage")) << "mutation " << i;
    }
    if (i % 50 == 0) ExpectService(*bystander, bystander_session);
    client.reset();
    ASSERT_TRUE(AwaitEnd(session));
    diary.connections.erase(session);
    intake->ReleaseMemory(session);
    diary.taken.clear();
  }
  EXPECT_GT(intake->counters().ended_for_garbage, 400u);
  EXPECT_EQ(intake->counters().clients, 1u);
  diary.on_submission = nullptr;
}

}  // namespace
}  // namespace mlxcomm::intake::session_faults_test

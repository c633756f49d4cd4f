// One session from the client's side, through the C interface: the test makes the daemon's moves
// (fake_daemon.h), and the control calls are stubbed (fake_attach_module.cc).
#include "client/lib/connection.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/lib/mlxcomm.h"
#include "proto/queue/scheduling_policy.h"
#include "tests/unit/client/lib/session_fixture.h"
#include "tests/unit/forked_child.h"

namespace mlxcomm::client::connection_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Rank 0 of 2, joined.
class ConnectionTest : public SessionTest {
 protected:
  ConnectionTest() : SessionTest(0, 2) {}
};

TEST(ConnectTest, SaysWhenTheHelloIsCutInTheMiddle) {
  FakeDaemon daemon;
  daemon.Answer([&](int connection) {
    const queue::DaemonHello hello = daemon.MakeHello();
    EXPECT_TRUE(queue::SendWithDescriptors(connection, &hello, sizeof hello / 2, nullptr, 0,
                                           FakeDaemon::kPatienceNs));
  });
  mlxcomm_connection* connection = nullptr;
  mlxcomm_error error{};
  EXPECT_EQ(Connect(daemon, connection, error), MLXCOMM_UNAVAILABLE);
  EXPECT_THAT(error.message, AllOf(HasSubstr("does not answer the hello"),
                                   HasSubstr("name no socket to get a private one")));
}

TEST(ConnectTest, RefusesAQueueOfAnotherLayout) {
  FakeDaemon daemon;
  daemon.header().version = 99;
  daemon.Welcome();
  mlxcomm_connection* connection = nullptr;
  mlxcomm_error error{};
  EXPECT_EQ(Connect(daemon, connection, error), MLXCOMM_UNAVAILABLE);
  EXPECT_THAT(error.message, HasSubstr("install the same release of both"));
}

// Why: mlxcomm.h promises that connecting calls `interrupted` too; a stopped daemon would block the
// user for ten seconds.
TEST(ConnectTest, IsCancelledWhileTheDaemonIsSilent) {
  std::atomic<bool> over{false};
  FakeDaemon daemon;  // Its thread uses it until it ends.
  daemon.Answer([&](int) {
    while (!over.load()) std::this_thread::yield();
  });
  std::atomic<bool> interrupt{true};
  mlxcomm_connection* connection = nullptr;
  mlxcomm_error error{};
  EXPECT_EQ(Connect(daemon, connection, error, &interrupt), MLXCOMM_CANCELLED);
  over = true;
}

queue::SchedulingPolicy PolicyWith(queue::Scheduling named, std::uint16_t spin_ms = 0) {
  FakeDaemon daemon;
  daemon.scheduling = named;
  daemon.spin_ms = spin_ms;
  daemon.Welcome();
  const std::string path = daemon.socket_path();
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  options.socket_path = path.c_str();
  std::unique_ptr<Connection> connection;
  EXPECT_TRUE(Connection::Open(options, connection).ok());
  return connection == nullptr ? queue::SchedulingPolicy() : connection->scheduling();
}

// Why: a configured policy must hold for all threads of the node; otherwise a process that is bound
// to few cores chooses the policy for few, whatever its daemon has.
TEST(ConnectTest, TakesTheSideOfSchedulingThatTheDaemonNames) {
  FakeAttach::Of(LibraryFolder()).Reset();
  const auto waiting_with = [](queue::Scheduling named) { return PolicyWith(named).waiting; };
  EXPECT_TRUE(waiting_with(queue::Scheduling::kFewCores).gives_way);
  EXPECT_FALSE(waiting_with(queue::Scheduling::kManyCores).gives_way);
  const bool has_few =
      queue::SchedulingPolicy::Choose(queue::Scheduling::kAuto, queue::UsableCores())
          .waiting.gives_way;
  EXPECT_EQ(waiting_with(queue::Scheduling::kAuto).gives_way, has_few);
  EXPECT_EQ(waiting_with(queue::Scheduling{99}).gives_way, has_few) << "of a newer daemon";
}

// Why: a daemon is another process: it may send any number, and one that is older sends 0.
TEST(ConnectTest, KeepsItsCoreForAsLongAsTheDaemonSaysButNotForever) {
  FakeAttach::Of(LibraryFolder()).Reset();
  const auto kept_ns = [](queue::Scheduling named, std::uint16_t spin_ms) {
    return PolicyWith(named, spin_ms).keep_core_ns;
  };
  EXPECT_EQ(kept_ns(queue::Scheduling::kAuto, 0), 0u);
  EXPECT_EQ(kept_ns(queue::Scheduling::kAuto, 10), 10'000'000u);
  EXPECT_EQ(kept_ns(queue::Scheduling::kManyCores, 65'535), 40'000'000u);
  EXPECT_EQ(kept_ns(queue::Scheduling::kFewCores, 10), 0u) << "its waiting threads yield";
}

// Why: a private daemon that ends with its last client accepts other processes until its socket is
// gone. A process that joined again at once, as in a notebook, sometimes got DAEMON_LOST.
// How: the path of the private daemon is a link, which leads to one of the test's daemons.
class EndingDaemonTest : public testing::Test {
 protected:
  EndingDaemonTest() : attach(FakeAttach::Of(LibraryFolder())) {
    attach.Reset();
    ::unsetenv("MLXCOMM_SOCKET");
    ::setenv("MLXCOMM_DAEMON", "/never/started", 1);
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    ::mkdir((folder_.path() + "/mlxcommd-" + std::to_string(::getuid())).c_str(), 0700);
    mlxcomm_connect_options_init(&options);
  }
  ~EndingDaemonTest() override {
    mlxcomm_group_close(group);
    mlxcomm_disconnect(connection);
    attach.Reset();
    ::unsetenv("XDG_RUNTIME_DIR");
    ::unsetenv("MLXCOMM_DAEMON");
  }
  void LeadTo(const FakeDaemon& daemon) {
    const std::string path = queue::PrivateSocketPath();
    ::unlink(path.c_str());
    EXPECT_EQ(::symlink(daemon.socket_path().c_str(), path.c_str()), 0);
  }
  mlxcomm_code ConnectAndJoin() {
    return mlxcomm_connect_and_join(&options, "job", 0, 2, 0, &connection, &group, &error);
  }
  static void Refuse(const FakeDaemon& daemon, int connection, FailureCode code) {
    queue::DaemonHello hello = daemon.MakeHello();
    hello.failure_code = code;
    EXPECT_TRUE(queue::SendWithDescriptors(connection, &hello, sizeof hello, nullptr, 0,
                                           FakeDaemon::kPatienceNs));
  }

  FakeAttach& attach;
  mlxcomm_connect_options options;
  mlxcomm_connection* connection = nullptr;
  mlxcomm_group* group = nullptr;
  mlxcomm_error error{};

 private:
  const TemporaryFolder folder_;
};

TEST_F(EndingDaemonTest, JoinsWithTheNextDaemonIfThePrivateOneEndsInstead) {
  FakeDaemon ending, next;
  ending.Welcome();
  next.Welcome();
  LeadTo(ending);
  int asked = 0;
  attach.attach = [&]() -> FakeAttach::Answer {
    if (++asked > 1) return {.group = 7, .name = "job", .members = 2};
    LeadTo(next);
    return {.code = MLXCOMM_DAEMON_LOST, .message = "the daemon ended"};
  };
  EXPECT_EQ(ConnectAndJoin(), MLXCOMM_OK) << error.message;
  EXPECT_EQ(mlxcomm_size(group), 2u);
}

TEST_F(EndingDaemonTest, GivesUpWhenEachPrivateDaemonEnds) {
  std::vector<std::unique_ptr<FakeDaemon>> daemons;
  const auto start = [&] {
    daemons.push_back(std::make_unique<FakeDaemon>());
    daemons.back()->Welcome();
    LeadTo(*daemons.back());
  };
  start();
  attach.attach = [&]() -> FakeAttach::Answer {
    start();
    return {.code = MLXCOMM_DAEMON_STOPPING, .message = "it stops"};
  };
  EXPECT_EQ(ConnectAndJoin(), MLXCOMM_DAEMON_STOPPING);
  EXPECT_EQ(connection, nullptr);
  EXPECT_EQ(daemons.size(), 5u);  // The last one has not been asked yet.
  attach.attach = nullptr;
  EXPECT_EQ(ConnectAndJoin(), MLXCOMM_OK) << error.message;
}

// Why: the process was refused although the next daemon would have served it.
TEST_F(EndingDaemonTest, AsksTheNextDaemonIfThePrivateOneRefusesBecauseItIsStopping) {
  FakeDaemon ending, started, next;
  LeadTo(ending);
  ending.Answer([&](int asking) {
    LeadTo(started);
    Refuse(ending, asking, FailureCode::kDaemonStopping);
  });
  started.Answer([&](int asking) {  // The query whether one exists.
    LeadTo(next);
    Refuse(started, asking, FailureCode::kPermissionDenied);
  });
  next.Welcome();
  EXPECT_EQ(ConnectAndJoin(), MLXCOMM_OK) << error.message;
}

// Why: another process's ranks may already be waiting at the service when it is back.
TEST_F(EndingDaemonTest, ReportsTheEndOfADaemonThatWasNamed) {
  FakeDaemon service;
  service.Welcome();
  const std::string path = service.socket_path();
  options.socket_path = path.c_str();
  attach.attach = []() -> FakeAttach::Answer { return {.code = MLXCOMM_DAEMON_LOST}; };
  EXPECT_EQ(ConnectAndJoin(), MLXCOMM_DAEMON_LOST);
}

TEST(ConnectTest, RefusesWhatIsNoJob) {
  FakeDaemon daemon;
  daemon.Welcome();
  mlxcomm_connection* connection = nullptr;
  mlxcomm_group* group = nullptr;
  mlxcomm_error error{};
  ASSERT_EQ(Connect(daemon, connection, error), MLXCOMM_OK) << error.message;
  EXPECT_EQ(mlxcomm_join(connection, "\xff", 0, 2, 0, &group, &error), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("UTF-8"));
  EXPECT_EQ(mlxcomm_join(connection, "refused", 0, 2, 0, &group, &error), MLXCOMM_ALREADY_EXISTS);
  EXPECT_EQ(error.rank, 1);
  EXPECT_EQ(mlxcomm_join(connection, "job", 0, 2, 0, &group, &error), MLXCOMM_OK);
  mlxcomm_group* second = nullptr;
  EXPECT_EQ(mlxcomm_join(connection, "job", 1, 2, 0, &second, &error), MLXCOMM_INVALID_ARGUMENT);
  mlxcomm_group_close(group);
  mlxcomm_disconnect(connection);
}

TEST_F(ConnectionTest, LatchesTheFailureOfTheGroup) {
  const std::uint64_t ticket = Barrier();
  daemon.Complete(ticket, MLXCOMM_MISMATCH, "rank 1 called send", 1, /*group_failed=*/true);
  EXPECT_EQ(Wait(ticket), MLXCOMM_MISMATCH);
  EXPECT_EQ(error.rank, 1);
  EXPECT_STREQ(error.message, "rank 1 called send");
  std::uint64_t another = 0;
  EXPECT_EQ(mlxcomm_barrier(group, 0, &another, &error), MLXCOMM_MISMATCH);
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_MISMATCH);
  EXPECT_STREQ(error.message, "rank 1 called send");
}

TEST_F(ConnectionTest, KeepsTheGroupAfterAFailureOfOneOperation) {
  const std::uint64_t ticket = Barrier();
  daemon.Complete(ticket, MLXCOMM_INVALID_ARGUMENT, "no");
  EXPECT_EQ(Wait(ticket), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_EQ(mlxcomm_group_failure(group, &error), MLXCOMM_OK);
}

// Why: messages contain names of jobs and programs, and are truncated to fit; Python would raise
// its own error for a text that is not UTF-8.
TEST_F(ConnectionTest, GivesMessagesInUtf8WhateverTheyHold) {
  std::uint64_t ticket = Barrier();
  daemon.Complete(ticket, MLXCOMM_INTERNAL, "a\xff\xc3\xa9z\xc3");
  EXPECT_EQ(Wait(ticket), MLXCOMM_INTERNAL);
  EXPECT_STREQ(error.message, "a?\xc3\xa9z?");
}

TEST_F(ConnectionTest, TakesACodeThatNobodyKnowsForAnInternalError) {
  const std::uint64_t ticket = Barrier();
  daemon.Complete(ticket, 200);
  EXPECT_EQ(Wait(ticket), MLXCOMM_INTERNAL);
}

TEST_F(ConnectionTest, RefusesMoreOperationsThanCompletionsHaveSlots) {
  std::vector<std::uint64_t> tickets;
  for (std::uint32_t i = 0; i < InFlight::kMost; ++i) tickets.push_back(Barrier());
  std::uint64_t surplus = 0;
  EXPECT_EQ(mlxcomm_barrier(group, 0, &surplus, &error), MLXCOMM_RESOURCE_EXHAUSTED);
  EXPECT_THAT(error.message, HasSubstr("1023"));
  for (const std::uint64_t ticket : tickets)
    daemon.Complete(daemon.Take().ticket == ticket ? ticket : 0);
  for (const std::uint64_t ticket : tickets) EXPECT_EQ(Wait(ticket), MLXCOMM_OK) << error.message;
  daemon.Complete(Barrier());
}

// Why: one thread reads all completions, and must pass on those of others.
// How: the last submitted operation ends first.
TEST_F(ConnectionTest, HandsEachOfSeveralThreadsItsOwn) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::uint64_t> tickets;
    std::vector<std::thread> waiters;
    for (int i = 0; i < kThreads; ++i) tickets.push_back(Barrier());
    for (int i = 0; i < kThreads; ++i) {
      waiters.emplace_back([this, ticket = tickets[static_cast<std::size_t>(i)]] {
        mlxcomm_error own{};
        EXPECT_EQ(mlxcomm_wait(group, ticket, &own), MLXCOMM_RESOURCE_EXHAUSTED);
        EXPECT_EQ(own.message, "of " + std::to_string(ticket));
      });
    }
    for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket) {
      daemon.Complete(*ticket, MLXCOMM_RESOURCE_EXHAUSTED, "of " + std::to_string(*ticket));
    }
    for (std::thread& waiter : waiters) waiter.join();
    for (int i = 0; i < kThreads; ++i) daemon.Take();
  }
}

TEST_F(ConnectionTest, TellsOfTheDaemonsDeathAtOnce) {
  const std::uint64_t done = Barrier();
  const std::uint64_t open = Barrier();
  std::thread waiter([&] {
    mlxcomm_error own{};
    EXPECT_EQ(mlxcomm_wait(group, open, &own), MLXCOMM_DAEMON_LOST);
    EXPECT_THAT(own.message, HasSubstr("connect again"));
  });
  while (!daemon.client_sleeps()) std::this_thread::yield();
  daemon.Complete(done);
  daemon.Die();
  waiter.join();
  EXPECT_EQ(Wait(done), MLXCOMM_OK) << "what had ended before has ended well";
  std::uint64_t ticket = 0;
  EXPECT_EQ(mlxcomm_barrier(group, 0, &ticket, &error), MLXCOMM_DAEMON_LOST);
}

// Why: a daemon that gave up a session, or was stopped and continues, may still be writing to the
// arena; memory that is allocated again would change under its new owner.
TEST_F(ConnectionTest, ReusesNoBufferThatALostDaemonMayWriteTo) {
  float* const buffer = Allocate(FakeDaemon::kArenaBytes);
  buffer[0] = 3;
  std::uint64_t ticket = 0;
  ASSERT_EQ(Reduce(buffer, 16, ticket), MLXCOMM_OK) << error.message;
  daemon.Die();
  EXPECT_EQ(Wait(ticket), MLXCOMM_DAEMON_LOST);
  EXPECT_EQ(buffer[0], 3);
  mlxcomm_buffer_free(connection, buffer);
  void* next = nullptr;
  EXPECT_EQ(mlxcomm_buffer_allocate(connection, 1, &next, &error), MLXCOMM_RESOURCE_EXHAUSTED);
}

TEST_F(ConnectionTest, TakesImpossiblePositionsForALostDaemon) {
  const std::uint64_t ticket = Barrier();
  daemon.header().completions.written = 1 << 20;
  EXPECT_EQ(Wait(ticket), MLXCOMM_DAEMON_LOST);
  EXPECT_THAT(error.message, HasSubstr("corrupt"));
}

// Why: a ring from which more was taken than had been put in cannot be trusted.
TEST_F(ConnectionTest, TakesImpossiblePositionsOfSubmissionsForALostDaemon) {
  float* const buffer = Allocate(FakeDaemon::kArenaBytes);
  daemon.header().submissions.read = 1 << 20;
  std::uint64_t ticket = 0;
  EXPECT_EQ(Reduce(buffer, 16, ticket), MLXCOMM_DAEMON_LOST);
  EXPECT_THAT(error.message, HasSubstr("corrupt"));
  mlxcomm_buffer_free(connection, buffer);
  EXPECT_EQ(Allocate(FakeDaemon::kArenaBytes), buffer) << "the daemon never had it";
}

// Why: an operation without bytes has offset 0, which may belong to another one. If it were pinned,
// or only unpinned, the buffer there would be reused while the daemon writes to it.
TEST_F(ConnectionTest, HoldsABufferAlthoughAnEmptyOperationEndsMeanwhile) {
  std::uint64_t empty = 0;
  ASSERT_EQ(Reduce(nullptr, 0, empty), MLXCOMM_OK) << error.message;
  float* const buffer = Allocate(64);
  std::uint64_t ticket = 0;
  ASSERT_EQ(Reduce(buffer, 16, ticket), MLXCOMM_OK) << error.message;
  ASSERT_EQ(daemon.Take().ticket, empty);
  ASSERT_EQ(daemon.Take().output_offset, 0u);
  daemon.Complete(empty);
  EXPECT_EQ(Wait(empty), MLXCOMM_OK) << error.message;
  mlxcomm_buffer_free(connection, buffer);
  EXPECT_NE(Allocate(64), buffer);
  daemon.Complete(ticket);
  EXPECT_EQ(Wait(ticket), MLXCOMM_OK) << error.message;
  EXPECT_EQ(Allocate(64), buffer);
}

TEST_F(ConnectionTest, SaysHowFullTheArenaIs) {
  Allocate(FakeDaemon::kArenaBytes / 2);
  void* buffer = nullptr;
  EXPECT_EQ(mlxcomm_buffer_allocate(connection, FakeDaemon::kArenaBytes, &buffer, &error),
            MLXCOMM_RESOURCE_EXHAUSTED);
  EXPECT_THAT(error.message, AllOf(HasSubstr("524288 are used"), HasSubstr("arena_bytes")));
}

TEST_F(ConnectionTest, FillsTheErrorOfASuccessInAGroupOfOne) {
  mlxcomm_group_close(group);
  group = nullptr;
  ASSERT_EQ(mlxcomm_join(connection, "alone", 0, 1, 0, &group, &error), MLXCOMM_OK);
  float* const buffer = Allocate(64);
  error.code = MLXCOMM_INTERNAL;
  std::uint64_t ticket = 0;
  EXPECT_EQ(Reduce(buffer, 16, ticket), MLXCOMM_OK);
  EXPECT_EQ(error.code, MLXCOMM_OK);
  EXPECT_EQ(Wait(ticket), MLXCOMM_OK);
}

// Why: a child has the parent's memory but none of its threads: it would wait forever, or corrupt
// the parent's queue.
TEST_F(ConnectionTest, RefusesEveryCallOfAForkedChild) {
  ForkedChild child([&] {
    std::uint64_t ticket = 0;
    void* buffer = nullptr;
    mlxcomm_connection* another = nullptr;
    const bool refused =
        mlxcomm_barrier(group, 0, &ticket, &error) == MLXCOMM_INVALID_ARGUMENT &&
        mlxcomm_buffer_allocate(connection, 64, &buffer, &error) == MLXCOMM_INVALID_ARGUMENT &&
        Connect(daemon, another, error) == MLXCOMM_INVALID_ARGUMENT;
    mlxcomm_group_close(group);
    mlxcomm_disconnect(connection);
    return refused;
  });
  EXPECT_EQ(child.Wait(), 0);
  const std::uint64_t ticket = Barrier();
  daemon.Complete(ticket);
  EXPECT_EQ(Wait(ticket), MLXCOMM_OK) << error.message;
}

}  // namespace
}  // namespace mlxcomm::client::connection_test

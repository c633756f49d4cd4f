// Sessions of local processes, with their real segments, in one process.
#include "daemon/intake/intake.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/unit/daemon/intake/intake_fixture.h"

namespace mlxcomm::intake::intake_test {
namespace {

using testing::HasSubstr;

using IntakeTest = IntakeFixture;

class OneClientTest : public IntakeFixture {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Open().ok());
    client = Connect();
    ASSERT_NE(client, nullptr);
    session = diary.opened[0];
  }
  std::unique_ptr<LocalProcess> client;
  SessionId session = 0;
};

TEST_F(IntakeTest, GivesAClientItsSegmentsAndTheConfiguredScheduling) {
  options.scheduling = queue::Scheduling::kManyCores;
  ASSERT_TRUE(Open().ok());
  const auto client = Connect(GoodHello(queue::ProcessRole::kClient, 5000));
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->answer().magic, queue::kDaemonHelloMagic);
  EXPECT_EQ(client->answer().failure_code, FailureCode::kNone);
  EXPECT_EQ(client->answer().scheduling, queue::Scheduling::kManyCores);
  EXPECT_EQ(client->descriptor_count(), queue::kClientDescriptors);
  EXPECT_EQ(client->answer().arena_bytes % 4096, 0u);
  EXPECT_GE(client->answer().arena_bytes, 5000u);
  EXPECT_EQ(client->header().magic, queue::kQueueMagic);
  EXPECT_EQ(client->header().submission_slots, queue::kSubmissionSlots);
  ASSERT_EQ(diary.opened.size(), 1u);
  EXPECT_EQ(diary.peers[diary.opened[0]].pid, ::getpid());
  EXPECT_EQ(intake->counters().clients, 1u);
  EXPECT_EQ(intake->counters().arena_bytes, client->answer().arena_bytes);
}

TEST_F(OneClientTest, PassesTheConnectionToTheListener) {
  const int daemon_end = diary.connections.at(diary.opened.at(0)).process.get();
  ASSERT_EQ(::send(client->connection(), "rpc", 3, 0), 3);
  char bytes[8] = {};
  EXPECT_EQ(::recv(daemon_end, bytes, sizeof bytes, 0), 3);
  EXPECT_LT(::recv(daemon_end, bytes, sizeof bytes, 0), 0) << "it does not block";
}

TEST_F(IntakeTest, LimitsAnArena) {
  ASSERT_TRUE(Open().ok());
  for (const std::uint64_t wanted : {std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    const auto client = Connect(GoodHello(queue::ProcessRole::kClient, wanted));
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->answer().arena_bytes, options.arena_bytes_max);
  }
}

TEST_F(IntakeTest, GivesAToolOnlyADoorbell) {
  ASSERT_TRUE(Open().ok());
  const auto tool = Connect(GoodHello(queue::ProcessRole::kTool, 0));
  ASSERT_NE(tool, nullptr);
  EXPECT_EQ(tool->descriptor_count(), queue::kToolDescriptors);
  EXPECT_EQ(tool->answer().arena_bytes, 0u);
  EXPECT_EQ(intake->counters().clients, 0u);
  EXPECT_EQ(diary.peers.at(diary.opened.at(0)).role, queue::ProcessRole::kTool);
  tool->CloseDoorbell();
  EXPECT_TRUE(AwaitEnd(diary.opened[0]));
}

TEST_F(OneClientTest, CarriesASubmissionAndItsCompletion) {
  const float three = 3;
  std::memcpy(client->arena(), &three, sizeof three);
  ASSERT_TRUE(client->Submit(Sum(9)));
  EXPECT_EQ(intake->Poll(), 1u);
  EXPECT_EQ(intake->Poll(), 0u);
  const collective::Call& call = diary.taken.at(0);
  EXPECT_EQ(call.ticket, 9u);
  EXPECT_EQ(call.output_bytes_available, call.input_bytes_available - 4096);
  float read = 0;
  std::memcpy(&read, call.input, sizeof read);
  EXPECT_EQ(read, three);
  call.output[0] = std::byte{42};
  EXPECT_EQ(client->arena()[4096], std::byte{42});

  const std::string message(1000, 'm');
  intake->Complete(diary.opened[0], 9, 5, {FailureCode::kRankLost, 3, message}, true);
  queue::CompletionEntry completion;
  ASSERT_EQ(client->completions().Pop(completion), queue::RingResult::kDone);
  EXPECT_EQ(completion.ticket, 9u);
  EXPECT_EQ(completion.group, 5u);
  EXPECT_EQ(completion.rank_at_fault, 3);
  EXPECT_EQ(completion.failure_code, static_cast<std::uint8_t>(FailureCode::kRankLost));
  EXPECT_EQ(completion.group_failed, 1);
  EXPECT_EQ(completion.message_bytes, kFailureMessageBytesMax);
  EXPECT_EQ(client->completions().Pop(completion), queue::RingResult::kNothing);
}

TEST_F(OneClientTest, AnswersAWrongSubmissionAndContinues) {
  queue::SubmissionEntry entry = Sum(1);
  entry.input_offset = client->answer().arena_bytes + 4;
  ASSERT_TRUE(client->Submit(entry));
  EXPECT_EQ(intake->Poll(), 1u);
  EXPECT_TRUE(diary.taken.empty());
  queue::CompletionEntry completion;
  ASSERT_EQ(client->completions().Pop(completion), queue::RingResult::kDone);
  EXPECT_EQ(completion.failure_code, static_cast<std::uint8_t>(FailureCode::kInvalidArgument));
  EXPECT_EQ(completion.group_failed, 0);
  EXPECT_THAT(std::string(completion.message, completion.message_bytes), HasSubstr("input"));
  ExpectService(*client, diary.opened[0]);
}

TEST_F(OneClientTest, RingsOnlyForASleepingClient) {
  ASSERT_TRUE(client->Submit(Sum(1)) && client->Submit(Sum(2)));
  EXPECT_EQ(intake->Poll(), 2u);
  intake->Complete(session, 1, 5, {}, false);
  EXPECT_EQ(queue::DrainDoorbell(client->doorbell()), queue::DoorbellState::kSilent);
  queue::CompletionEntry completion;
  ASSERT_EQ(client->completions().Pop(completion), queue::RingResult::kDone);
  ASSERT_TRUE(client->completions().PrepareToSleep());
  intake->Complete(session, 2, 5, {}, false);
  EXPECT_EQ(queue::DrainDoorbell(client->doorbell()), queue::DoorbellState::kRung);
}

TEST_F(IntakeTest, SleepsOnlyWithoutSubmissionsAndWakesAtADoorbell) {
  ASSERT_TRUE(Open().ok());
  const auto first = Connect();
  const auto second = Connect();
  ASSERT_TRUE(first != nullptr && second != nullptr);
  ASSERT_TRUE(second->Submit(Sum(1)));
  EXPECT_FALSE(intake->PrepareToSleep());
  ASSERT_TRUE(first->Submit(Sum(2)));  // The loop is not asleep: no ring.
  EXPECT_EQ(intake->Poll(), 2u);
  io.restart();
  EXPECT_EQ(io.poll(), 0u);

  ASSERT_TRUE(intake->PrepareToSleep());
  ASSERT_TRUE(first->Submit(Sum(3)));
  io.restart();
  EXPECT_EQ(io.run_one_for(std::chrono::minutes(1)), 1u);
  intake->WakeUp();
  EXPECT_EQ(intake->Poll(), 1u);
}

// Why: a client that keeps ringing must not make one turn last forever, and draining a doorbell
// before reading the submissions delays the operation.
// How: after a first ring the doorbell is filled; it has space again only once it is drained, which
// happens before sleep or after a number of turns.
TEST_F(OneClientTest, DrainsADoorbellBeforeSleepOrAfterSomeTurns) {
  const auto rings = [this] { return ::send(client->doorbell(), "r", 1, MSG_DONTWAIT) == 1; };
  const auto has_room_after = [&](int turns, bool sleeps) {
    while (rings()) {
    }
    io.poll();
    for (int i = 0; i < turns; ++i) EXPECT_EQ(intake->Poll(), 0u);
    EXPECT_TRUE(!sleeps || intake->PrepareToSleep());
    io.poll();
    return rings();
  };
  constexpr int kMost = Intake::kTurnsUndrainedMax;
  io.restart();
  EXPECT_FALSE(has_room_after(kMost - 1, false));
  EXPECT_TRUE(has_room_after(1, false));
  EXPECT_FALSE(has_room_after(1, false));
  EXPECT_TRUE(has_room_after(0, true));
}

TEST_F(OneClientTest, ADrainedRingDoesNotWakeTheLoopAgain) {
  ASSERT_TRUE(intake->PrepareToSleep());
  ASSERT_TRUE(client->Submit(Sum(1)));  // Rings, because the loop sleeps.
  io.restart();
  EXPECT_EQ(io.poll(), 1u);
  intake->WakeUp();
  EXPECT_EQ(intake->Poll(), 1u);
  EXPECT_TRUE(intake->PrepareToSleep());
  io.restart();
  EXPECT_EQ(io.poll(), 0u);
  intake->WakeUp();
  ExpectService(*client, diary.opened[0]);
}

// Why: a closed doorbell shows that the process has exited, even to a loop that is never idle.
TEST_F(IntakeTest, DetectsAnExitWithoutEverSleeping) {
  ASSERT_TRUE(Open().ok());
  const auto leaves = Connect();
  const auto busy = Connect();
  ASSERT_TRUE(leaves != nullptr && busy != nullptr);
  leaves->CloseDoorbell();
  for (std::uint64_t turn = 0; turn <= Intake::kTurnsUndrainedMax + 1; ++turn) {
    io.restart();
    io.poll();
    ASSERT_TRUE(busy->Submit(Sum(turn)));
    EXPECT_EQ(intake->Poll(), 1u);
    intake->Complete(diary.opened[1], turn, 5, {}, false);
    queue::CompletionEntry completion;
    ASSERT_EQ(busy->completions().Pop(completion), queue::RingResult::kDone);
  }
  io.restart();
  io.poll();
  EXPECT_EQ(diary.ended.count(diary.opened[0]), 1u);
  EXPECT_EQ(diary.ended.count(diary.opened[1]), 0u);
}

TEST_F(IntakeTest, TakesTurnsBetweenSessions) {
  ASSERT_TRUE(Open().ok());
  const auto busy = Connect();
  const auto modest = Connect();
  ASSERT_TRUE(busy != nullptr && modest != nullptr);
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(busy->Submit(Sum(i)));
  ASSERT_TRUE(modest->Submit(Sum(1)));
  EXPECT_EQ(intake->Poll(), Intake::kSubmissionsPerTurn + 1);
  EXPECT_EQ(std::ranges::count(diary.taken, diary.opened[1], &collective::Call::session), 1);
}

// Why: a user with many processes would lengthen the turn for other users.
TEST_F(IntakeTest, LimitsAUsersSubmissionsInATurn) {
  ASSERT_TRUE(Open().ok());
  constexpr std::size_t kClients = 8;
  std::vector<std::unique_ptr<LocalProcess>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(Connect());
    ASSERT_NE(clients.back(), nullptr);
  }
  for (const auto& client : clients) {
    for (std::uint64_t k = 0; k < 100; ++k) ASSERT_TRUE(client->Submit(Sum(k)));
  }
  EXPECT_EQ(intake->Poll(), Intake::kSubmissionsOfUserPerTurn);
  while (intake->Poll() > 0) {
  }
  EXPECT_EQ(diary.taken.size(), 100 * kClients);
}

// Why: other users lack what one user holds; a crash must free it.
// How: the limits of one user are lower than those for all, so the user reaches its own.
TEST_F(IntakeTest, AUserReachesItsLimitsAndACrashFreesItsShare) {
  options.per_user = {2, 2 << 16, 0};
  ASSERT_TRUE(Open().ok());
  auto first = Connect();
  const auto second = Connect(GoodHello(queue::ProcessRole::kClient, 1 << 15));
  const auto third = Connect();
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(third->answer().failure_code, FailureCode::kResourceExhausted);
  EXPECT_THAT(third->answer().message, HasSubstr("clients_per_user_max"));
  ASSERT_EQ(intake->use().users.size(), 1u);
  EXPECT_EQ(intake->use().users[0].used.clients, 2u);
  first->CloseDoorbell();
  ASSERT_TRUE(AwaitEnd(diary.opened[0]));
  const auto large = Connect(GoodHello(queue::ProcessRole::kClient, 1 << 17));
  ASSERT_NE(large, nullptr);
  EXPECT_THAT(large->answer().message, HasSubstr("arena_bytes_per_user_max"));
  intake->ReleaseMemory(diary.opened[0]);
  const auto fourth = Connect();
  ASSERT_NE(fourth, nullptr);
  EXPECT_EQ(fourth->answer().failure_code, FailureCode::kNone) << fourth->answer().message;
  EXPECT_EQ(intake->use().used.arena_bytes, (1u << 16) + (1u << 15));
}

// How: one operation more than may be in flight is answered at once, and the next one is accepted
// as soon as one has ended, even if it ended with its process.
TEST_F(IntakeTest, RefusesAnOperationBeyondAUsersLimitUntilOneEnds) {
  options.per_user = {0, 0, 3};
  ASSERT_TRUE(Open().ok());
  auto crashing = Connect();
  const auto client = Connect();
  ASSERT_TRUE(crashing->Submit(Sum(1)));
  ASSERT_TRUE(Await([&] { return diary.taken.size() == 1; }));
  for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) ASSERT_TRUE(client->Submit(Sum(ticket)));
  ASSERT_TRUE(Await([&] { return diary.taken.size() == 3; }));
  queue::CompletionEntry refused;
  ASSERT_TRUE(
      Await([&] { return client->completions().Pop(refused) == queue::RingResult::kDone; }));
  EXPECT_EQ(refused.ticket, 3u);
  EXPECT_EQ(refused.failure_code, static_cast<std::uint8_t>(FailureCode::kResourceExhausted));
  EXPECT_EQ(refused.group_failed, 0);
  EXPECT_THAT(std::string(refused.message, refused.message_bytes),
              HasSubstr("3 operations in flight, the limit: raise clients { "
                        "operations_per_user_max"));
  crashing->CloseDoorbell();
  ASSERT_TRUE(AwaitEnd(diary.opened[0]));
  EXPECT_EQ(intake->use().used.operations, 3u) << "its memory is still in use";
  intake->ReleaseMemory(diary.opened[0]);
  EXPECT_EQ(intake->use().used.operations, 2u);
  ExpectService(*client, diary.opened[1]);
  EXPECT_EQ(intake->use().used.operations, 2u);
}

TEST_F(IntakeTest, WithAllUsersOneGetsThreeQuarters) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(intake->use().per_user.clients, 64u);
  intake.reset();
  options.all_users = true;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(intake->use().per_user.clients, 48u);
  EXPECT_EQ(intake->use().all.clients, 64u);
  EXPECT_EQ(intake->use().per_user.operations, intake->use().all.operations / 4 * 3);
}

TEST_F(IntakeTest, RefusesToolsBeyondTheirLimit) {
  ASSERT_TRUE(Open().ok());
  std::vector<std::unique_ptr<LocalProcess>> tools;
  for (std::uint32_t i = 0; i <= Intake::kToolsMax + Intake::kToolsKept; ++i) {
    tools.push_back(Connect(GoodHello(queue::ProcessRole::kTool, 0)));
    ASSERT_NE(tools.back(), nullptr);
  }
  EXPECT_EQ(tools.back()->answer().failure_code, FailureCode::kResourceExhausted);
  EXPECT_THAT(tools.back()->answer().message, HasSubstr("80 tools"));
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  ExpectService(*client, diary.opened.back());
}

TEST_F(OneClientTest, EndClosesDoorbellAndConnectionAndReportsLater) {
  intake->End(session, absl::CancelledError("enough"));
  EXPECT_TRUE(diary.ended.empty());
  intake->End(session, absl::CancelledError("twice"));
  EXPECT_EQ(queue::DrainDoorbell(client->doorbell()), queue::DoorbellState::kOtherSideGone);
  char byte;
  EXPECT_EQ(::recv(client->connection(), &byte, 1, MSG_DONTWAIT), 0);
  ASSERT_TRUE(AwaitEnd(session));
  EXPECT_EQ(diary.ended[session].message(), "enough");
  EXPECT_EQ(intake->counters().clients, 0u);
  EXPECT_EQ(intake->counters().arena_bytes, 0u);
  intake->Complete(session, 1, 5, {}, false);  // No effect.
  intake->ReleaseMemory(session);
  intake->ReleaseMemory(session);
}

TEST_F(OneClientTest, KeepsAnEndedSessionsMemoryUntilItIsReleased) {
  ASSERT_TRUE(client->Submit(Sum(1)));
  ASSERT_EQ(intake->Poll(), 1u);
  intake->ReleaseMemory(session);  // It is open: no effect.
  client.reset();
  ASSERT_TRUE(AwaitEnd(session));
  diary.taken[0].output[0] = std::byte{1};
  intake->ReleaseMemory(session);
  EXPECT_EQ(intake->Poll(), 0u);
}

TEST_F(OneClientTest, MayEndASessionFromInsideItsSubmission) {
  diary.on_submission = [this](const collective::Call& call) {
    intake->End(call.session, absl::CancelledError("from inside"));
  };
  ASSERT_TRUE(client->Submit(Sum(1)) && client->Submit(Sum(2)));
  EXPECT_EQ(intake->Poll(), 1u);
  EXPECT_TRUE(AwaitEnd(diary.opened[0]));
}

TEST_F(IntakeTest, FindsASessionByTokenAndConnectionTogether) {
  ASSERT_TRUE(Open().ok());
  const auto first = Connect();
  const auto second = Connect();
  ASSERT_TRUE(first != nullptr && second != nullptr);
  const auto peer_of = [this](SessionId session) {
    return "fd:" + std::to_string(diary.connections.at(session).grpc.get());
  };
  const SessionId session = diary.opened[0];
  const auto found = intake->Find(first->token(), peer_of(session));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->session, session);
  EXPECT_EQ(found->peer.pid, ::getpid());
  EXPECT_NE(first->token(), second->token());
  EXPECT_FALSE(intake->Find(first->token(), peer_of(diary.opened[1])).has_value());
  EXPECT_FALSE(intake->Find(first->token().substr(1), peer_of(session)).has_value());
  EXPECT_FALSE(intake->Find("", "").has_value());
  // Newer gRPC does not identify the connection; the token is still required.
  EXPECT_TRUE(intake->Find(first->token(), "unix:").has_value());
  EXPECT_FALSE(intake->Find(first->token().substr(1), "unix:").has_value());
  intake->End(session, absl::CancelledError("over"));
  EXPECT_FALSE(intake->Find(first->token(), peer_of(session)).has_value());
}

// Why: the control server's threads look sessions up while the loop opens and ends them.
TEST_F(IntakeTest, FindsFromAnotherThreadWhileSessionsOpenAndEnd) {
  ASSERT_TRUE(Open().ok());
  const auto stable = Connect();
  ASSERT_NE(stable, nullptr);
  const std::string peer = "fd:" + std::to_string(diary.connections.at(diary.opened[0]).grpc.get());
  const std::string token = stable->token();
  std::atomic<bool> stop{false};
  std::atomic<int> asked{0};
  std::atomic<int> missed{0};
  std::thread asker([&] {
    while (!stop) {
      if (!intake->Find(token, peer).has_value()) ++missed;
      if (intake->counters().clients == 0) ++missed;
      ++asked;
    }
  });
  for (int i = 0; i < 50 || asked < 100; ++i) {
    ASSERT_NE(Connect(), nullptr);  // It leaves at once.
    ASSERT_TRUE(AwaitEnd(diary.opened.back()));
    intake->ReleaseMemory(diary.opened.back());
  }
  stop = true;
  asker.join();
  EXPECT_EQ(missed, 0);
}

// Why: a draining daemon is running. A process that connects gets an answer, not "no mlxcommd".
TEST_F(OneClientTest, RefusesClientsAndServesTools) {
  intake->RefuseClients({FailureCode::kDaemonStopping, kNoRank, "it is stopping"});
  const auto late = Connect();
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->answer().failure_code, FailureCode::kDaemonStopping);
  const auto tool = Connect(GoodHello(queue::ProcessRole::kTool, 0));
  ASSERT_NE(tool, nullptr);
  EXPECT_EQ(tool->answer().failure_code, FailureCode::kNone);
  ExpectService(*client, diary.opened[0]);
}

TEST_F(OneClientTest, ServesOpenSessionsAfterItStoppedAccepting) {
  intake->StopAccepting();
  EXPECT_FALSE(LocalProcess(options.socket_path).connected());
  ExpectService(*client, diary.opened[0]);
}

}  // namespace
}  // namespace mlxcomm::intake::intake_test

// An intake and its local processes in one thread, with a listener that records its calls.
//
// Owner: the test. Thread: the test's. Memory: only the test releases ended sessions'
// memory.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/intake/intake.h"
#include "tests/unit/daemon/intake/local_process.h"

namespace mlxcomm::intake {

class Diary : public IntakeListener {
 public:
  void OnSessionOpened(SessionId session, const Peer& peer) override {
    opened.push_back(session);
    peers[session] = peer;
  }
  void OnConnection(SessionId session, ControlConnection connection) override {
    connections[session] = std::move(connection);
  }
  void OnSubmission(collective::Call& call) override {
    taken.push_back(call);
    if (on_submission) on_submission(call);
  }
  void OnSessionEnded(SessionId session, const absl::Status& why) override {
    EXPECT_TRUE(ended.emplace(session, why).second) << "told twice";
  }
  std::vector<SessionId> opened;
  std::map<SessionId, Peer> peers;
  std::map<SessionId, ControlConnection> connections;
  std::vector<collective::Call> taken;
  std::map<SessionId, absl::Status> ended;
  std::function<void(const collective::Call&)> on_submission;
};

class IntakeFixture : public testing::Test {
 protected:
  absl::Status Open() {
    auto created = Intake::Create(io, options, diary);
    if (!created.ok()) return created.status();
    intake = *std::move(created);
    return absl::OkStatus();
  }
  [[nodiscard]] bool Await(const std::function<bool()>& done) {
    return RunUntil(io, [this] { intake->Poll(); }, done);
  }
  // A process with its answer, accepted or not; null if there was none.
  std::unique_ptr<LocalProcess> Connect(
      const queue::ClientHello& hello = GoodHello(queue::ProcessRole::kClient)) {
    auto process = std::make_unique<LocalProcess>(options.socket_path);
    const bool answered = process->Send(hello) && Await([&] { return process->HasAnswer(); }) &&
                          process->TakeAnswer();
    return answered ? std::move(process) : nullptr;
  }
  [[nodiscard]] bool AwaitEnd(SessionId session) {
    return Await([&] { return diary.ended.count(session) != 0; });
  }
  static queue::SubmissionEntry Sum(std::uint64_t ticket) {
    queue::SubmissionEntry entry{};
    entry.ticket = ticket;
    entry.group = 5;
    entry.output_offset = 4096;
    entry.count = 1024;
    entry.kind = OperationKind::kAllReduce;
    entry.data_type = DataType::kFloat32;
    entry.reduce_operator = ReduceOperator::kSum;
    return entry;
  }
  // Runs one operation, to check that this process is served.
  void ExpectService(LocalProcess& process, SessionId session) {
    const std::size_t before = diary.taken.size();
    ASSERT_TRUE(process.Submit(Sum(77)));
    ASSERT_TRUE(Await([&] { return diary.taken.size() > before; }));
    ASSERT_EQ(diary.taken.back().session, session);
    intake->Complete(session, 77, 5, {}, false);
    queue::CompletionEntry completion;
    ASSERT_EQ(process.completions().Pop(completion), queue::RingResult::kDone);
    ASSERT_EQ(completion.ticket, 77u);
    ASSERT_EQ(completion.failure_code, 0);
  }

  static IntakeOptions Options(std::string socket_path) {
    IntakeOptions options;
    options.socket_path = std::move(socket_path);
    options.arena_bytes_max = 1 << 20;
    options.hello_timeout_ns = 60'000'000'000;
    return options;
  }

  SocketFolder folder;
  IntakeOptions options = Options(folder.socket());
  asio::io_context io;
  Diary diary;
  std::unique_ptr<Intake> intake;
};

}  // namespace mlxcomm::intake

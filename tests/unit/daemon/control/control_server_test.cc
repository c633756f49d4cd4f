#include "daemon/control/control_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "daemon/control/event_stream.h"
#include "mlxcomm/v1/control.grpc.pb.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"
#include "proto/queue/hello.h"
#include "tests/unit/never.h"

namespace mlxcomm::control::control_server_test {
namespace {

constexpr char kClientToken[] = "client-token-16b";
constexpr char kToolToken[] = "tool---token-16b";

// Knows two sessions: 7, a training process, and 8, a tool.
class KnownSessions final : public intake::Intake {
 public:
  std::size_t Poll() override { return 0; }
  bool PrepareToSleep() override { return true; }
  void WakeUp() override {}
  void Complete(intake::SessionId, std::uint64_t, std::uint64_t, const Failure&, bool) override {}
  std::optional<intake::Submission> TakeOver(intake::SessionId,
                                             const queue::SubmissionEntry&) override {
    return std::nullopt;
  }
  void AnswerClose(intake::SessionId, std::uint64_t) override {}
  bool PassDescriptor(intake::SessionId, int) override { return false; }
  bool AreOfOneAccount(const std::vector<intake::SessionId>&) const override { return true; }
  void End(intake::SessionId, const absl::Status&) override {}
  std::shared_ptr<intake::ArenaPages> PagesOf(intake::SessionId) const override { return nullptr; }
  intake::CopiedResults ResultsCopiedBy(intake::SessionId) const override { return {}; }
  std::shared_ptr<const platform::SharedSegment> ArenaOf(intake::SessionId) const override {
    return nullptr;
  }
  void ReleaseMemory(intake::SessionId) override {}
  std::optional<intake::SessionIdentity> Find(std::string_view token,
                                              std::string_view grpc_peer) const override {
    // Names up to 1.5x; later releases only give the kind of socket.
    if (!grpc_peer.starts_with("fd:") && !grpc_peer.starts_with("unix:")) return std::nullopt;
    if (token == kClientToken) return Identity(7, queue::ProcessRole::kClient);
    if (token == kToolToken) return Identity(8, queue::ProcessRole::kTool);
    return std::nullopt;
  }
  intake::IntakeCounters counters() const override { return {}; }
  intake::UseOfLimits use() const override { return {}; }
  void RefuseClients(const Failure&) override {}
  void StopAccepting() override {}
  void Rest() override {}
  bool is_at_rest() const override { return false; }
  void GoOn() override {}
  absl::StatusOr<intake::Door> HandOver() override { return absl::UnimplementedError(""); }

 private:
  static intake::SessionIdentity Identity(intake::SessionId session, queue::ProcessRole role) {
    intake::SessionIdentity identity;
    identity.session = session;
    identity.peer.role = role;
    const bool tool = role == queue::ProcessRole::kTool;
    identity.peer.user = {tool ? "tools-user" : "clients-user", /*sees_all=*/tool};
    return identity;
  }
};

// A loop that answers at once, or keeps an Attach until it is cancelled.
class ScriptedEngine final : public ControlPort {
 public:
  enum class Does { kSucceed, kFail, kDrop, kKeep };

  void Attach(const intake::SessionIdentity& who, std::uint64_t call,
              const v1::AttachRequest& request, std::unique_ptr<AttachAnswer> answer) override {
    const std::lock_guard lock(mutex_);
    attached_ = who.session;
    calls_.push_back(call);
    if (does == Does::kKeep) {
      kept_ = std::move(answer);
      changed_.notify_all();
    } else if (does == Does::kFail) {
      answer->Fail(failure);
    } else if (does == Does::kSucceed) {
      v1::AttachReply reply;
      reply.set_group(100 + request.rank());
      answer->Succeed(reply);
    }
  }
  void CancelAttach(intake::SessionId session, std::uint64_t call) override {
    const std::lock_guard lock(mutex_);
    cancelled_ = session;
    cancelled_call_ = call;
    if (auto kept = std::move(kept_); kept != nullptr) {
      kept->Fail({FailureCode::kCancelled, kNoRank, "cancelled by the caller"});
    }
    changed_.notify_all();
  }
  void Awaited(intake::SessionId, const v1::AwaitedRequest&,
               std::unique_ptr<AwaitedAnswer> answer) override {
    answer->Succeed({});
  }
  void Detach(intake::SessionId, const v1::DetachRequest&,
              std::unique_ptr<DetachAnswer> answer) override {
    answer->Succeed({});
  }
  void Split(intake::SessionId session, const v1::SplitRequest& request,
             std::unique_ptr<GroupAnswer> answer) override {
    v1::GroupReply reply;
    reply.set_group(session + request.parent());
    reply.set_name(request.name());
    answer->Succeed(reply);
  }
  void Release(intake::SessionId, std::uint64_t group,
               std::unique_ptr<ReleaseAnswer> answer) override {
    if (group == 7) return answer->Succeed({});
    answer->Fail({FailureCode::kInvalidArgument, kNoRank, "not one of its groups"});
  }
  void Shrink(intake::SessionId, std::uint64_t call, const v1::ShrinkRequest&,
              std::unique_ptr<GroupAnswer> answer) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    kept_shrink_ = std::move(answer);
    changed_.notify_all();
  }
  void CancelShrink(intake::SessionId session, std::uint64_t call) override {
    const std::lock_guard lock(mutex_);
    cancelled_ = session;
    cancelled_call_ = call;
    if (auto kept = std::move(kept_shrink_); kept != nullptr) {
      kept->Fail({FailureCode::kCancelled, kNoRank, "cancelled by the caller"});
    }
    changed_.notify_all();
  }
  void Cancel(intake::SessionId, const v1::CancelRequest&,
              std::unique_ptr<CancelAnswer> answer) override {
    answer->Succeed({});
  }
  // A job of each of two users, and a node that does not answer.
  void Status(std::unique_ptr<StatusAnswer> answer) override {
    auto parts = std::make_shared<node::StatusParts>();
    parts->own.set_node("here");
    v1::NodeStatus& own = *parts->own.add_nodes();
    own.set_name("here");
    parts->own.add_nodes()->set_name("there");
    for (const char* const user : {"tools-user", "clients-user"}) {
      v1::JobStatus& job = *parts->own.add_jobs();
      job.set_user(user);
      job.set_name("job");
      job.set_state("running");
    }
    answer->Succeed(parts);
  }
  void Metrics(std::unique_ptr<MetricsAnswer> answer) override { answer->Succeed({}); }
  void Ping(const v1::PingRequest& request, std::unique_ptr<PingAnswer> answer) override {
    v1::PingReply reply;
    reply.set_node(request.node());
    reply.set_round_trip_ns(1000);
    answer->Succeed(reply);
  }
  void Doctor(std::unique_ptr<DoctorAnswer> answer) override {
    v1::DoctorReply reply;
    reply.set_node("node-0");
    answer->Succeed(reply);
  }
  void MeasureLinks(std::unique_ptr<CostsAnswer> answer) override {
    const std::lock_guard lock(mutex_);
    if (does == Does::kSucceed) {
      v1::LinkCosts costs;
      costs.set_latency_ns(8192);
      answer->Succeed(costs);
    } else if (does == Does::kFail) {
      answer->Fail(failure);
    }
  }

  void WaitUntilKept() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return kept_ != nullptr || kept_shrink_ != nullptr; });
  }
  intake::SessionId WaitForCancel() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return cancelled_ != 0; });
    return cancelled_;
  }
  std::vector<std::uint64_t> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  std::uint64_t cancelled_call() {
    const std::lock_guard lock(mutex_);
    return cancelled_call_;
  }
  intake::SessionId attached() {
    const std::lock_guard lock(mutex_);
    return attached_;
  }

  Does does = Does::kSucceed;
  Failure failure;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<AttachAnswer> kept_;
  std::unique_ptr<GroupAnswer> kept_shrink_;
  intake::SessionId attached_ = 0;
  std::vector<std::uint64_t> calls_;
  intake::SessionId cancelled_ = 0;
  std::uint64_t cancelled_call_ = 0;
};

intake::ControlConnection FromProcess(int connection) {
  intake::ControlConnection made;
  EXPECT_TRUE(made.MakePair());
  made.SetProcess(platform::FileDescriptor(connection));
  return made;
}

class ControlServerTest : public testing::Test {
 protected:
  ControlServerTest() : server_(ControlServer::Create(engine_, intake_, recorder_, events_)) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (const int end : ends) ::fcntl(end, F_SETFL, O_NONBLOCK);
    server_->Adopt(FromProcess(ends[0]));
    channel_ = grpc::CreateInsecureChannelFromFd("test", ends[1]);
  }
  ~ControlServerTest() override {
    channel_.reset();
    server_->Shutdown(0);
  }

  static void Identify(grpc::ClientContext& context, const std::string& token) {
    context.AddMetadata(queue::kTokenMetadataKey, token);
    // Only so that a broken server fails the test instead of blocking it.
    context.set_deadline(std::chrono::system_clock::now() + kNever);
  }
  grpc::Status Attach(const std::string& token, const v1::AttachRequest& request = {}) {
    grpc::ClientContext context;
    Identify(context, token);
    return v1::Control::NewStub(channel_)->Attach(&context, request, &attached_);
  }
  grpc::Status Status(const std::string& token) {
    grpc::ClientContext context;
    Identify(context, token);
    return v1::Diagnostics::NewStub(channel_)->Status(&context, {}, &status_);
  }
  grpc::Status Costs(const std::string& token = kToolToken) {
    grpc::ClientContext context;
    Identify(context, token);
    costs_.Clear();
    return v1::Diagnostics::NewStub(channel_)->Costs(&context, {}, &costs_);
  }
  static v1::Refusal RefusalIn(const grpc::Status& status) {
    v1::Refusal refusal;
    EXPECT_TRUE(refusal.ParseFromString(status.error_details()));
    return refusal;
  }

  KnownSessions intake_;
  ScriptedEngine engine_;
  record::FlightRecorder recorder_{"node"};
  record::EventLog events_;
  std::unique_ptr<ControlServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  v1::AttachReply attached_;
  v1::StatusReply status_;
  v1::LinkCosts costs_;
};

TEST_F(ControlServerTest, AsksForStatusAsTheUserOfTheSession) {
  ASSERT_TRUE(Status(kToolToken).ok());
  EXPECT_EQ(status_.jobs_size(), 2);  // It sees all.
  ASSERT_TRUE(Status(kClientToken).ok());
  ASSERT_EQ(status_.jobs_size(), 1);
  EXPECT_EQ(status_.jobs(0).user(), "clients-user");
}

// Why: ordinary users could take all places, and no operator would see what happens.
// How: one user follows as often as allowed, and is then refused; the operator is not, and sees
// events that the user does not. A reader that leaves makes room.
TEST_F(ControlServerTest, OneUserFollowsEventsOnlySoOften) {
  const auto stub = v1::Diagnostics::NewStub(channel_);
  v1::EventsRequest request;
  request.set_last(9);
  request.set_follow(true);
  for (const char* const user : {"clients-user", "somebody"}) {
    record::LoggedEvent event;
    event.kind = "job_formed";
    event.object = user;
    event.user = user;
    events_.Add(event);
  }
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::EventsReply>>> readers;
  v1::EventsReply reply;
  const auto follow = [&](const std::string& token) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    Identify(*contexts.back(), token);
    readers.push_back(stub->Events(contexts.back().get(), request));
    return readers.back()->Read(&reply);
  };
  for (std::uint32_t i = 0; i < EventStreams::kPerUserMax; ++i) {
    ASSERT_TRUE(follow(kClientToken));
    EXPECT_EQ(reply.object(), "clients-user");
  }
  EXPECT_FALSE(follow(kClientToken));
  EXPECT_EQ(readers.back()->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  readers.pop_back();
  ASSERT_TRUE(follow(kToolToken));
  ASSERT_TRUE(readers.back()->Read(&reply));
  EXPECT_EQ(reply.object(), "somebody");
  contexts[0]->TryCancel();
  EXPECT_EQ(readers[0]->Finish().error_code(), grpc::StatusCode::CANCELLED);
  readers.erase(readers.begin());
  while (!follow(kClientToken)) {  // The server learns of it a moment later.
    EXPECT_EQ(readers.back()->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    readers.pop_back();
    std::this_thread::yield();
  }
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& reader : readers) {
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(ControlServerTest, AnswersWithWhatTheEngineSays) {
  v1::AttachRequest request;
  request.set_rank(3);
  EXPECT_TRUE(Attach(kClientToken, request).ok());
  EXPECT_EQ(attached_.group(), 103u);
  EXPECT_EQ(engine_.attached(), 7u);
  EXPECT_TRUE(Status(kClientToken).ok());
  EXPECT_EQ(status_.node(), "here");
}

TEST_F(ControlServerTest, RefusalCarriesCodeRankAndMessage) {
  engine_.does = ScriptedEngine::Does::kFail;
  engine_.failure = {FailureCode::kAlreadyExists, 5, "rank 5 is taken"};
  const grpc::Status status = Attach(kClientToken);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  const v1::Refusal refusal = RefusalIn(status);
  EXPECT_EQ(refusal.code(), static_cast<std::uint32_t>(FailureCode::kAlreadyExists));
  EXPECT_EQ(refusal.rank(), 5);
  EXPECT_EQ(refusal.message(), "rank 5 is taken");
}

// Why: a message travels in trailers, which gRPC bounds: one that is too long would lose code and
// rank with it. Three bytes for each character, so that the cut falls inside one.
TEST_F(ControlServerTest, ShortensALongMessageBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 5000; ++i) message += "\u20ac";
  engine_.does = ScriptedEngine::Does::kFail;
  engine_.failure = {FailureCode::kUnavailable, 2, message};
  const grpc::Status status = Attach(kClientToken);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const v1::Refusal refusal = RefusalIn(status);
  EXPECT_EQ(refusal.rank(), 2);
  EXPECT_EQ(refusal.message(), message.substr(0, 1023));
}

TEST_F(ControlServerTest, SaysThatItStopsWhenAnAnswerIsDropped) {
  engine_.does = ScriptedEngine::Does::kDrop;
  const grpc::Status status = Attach(kClientToken);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(RefusalIn(status).code(), static_cast<std::uint32_t>(FailureCode::kDaemonStopping));
}

TEST_F(ControlServerTest, ServesNobodyWithoutASession) {
  for (const char* const token : {"", "another-token-16"}) {
    EXPECT_EQ(Attach(token).error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(Status(token).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(engine_.attached(), 0u);
}

TEST_F(ControlServerTest, ShowsToolsTheStatusAndNothingElse) {
  EXPECT_TRUE(Status(kToolToken).ok());
  EXPECT_EQ(Attach(kToolToken).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(engine_.attached(), 0u);
}

// Why: a process may attach again as soon as it has given up; the end of its first call must not
// withdraw the second. How: calls have numbers, and a cancel names one.
TEST_F(ControlServerTest, WithdrawsTheRankWhenItsCallerGivesUp) {
  EXPECT_TRUE(Attach(kClientToken).ok());
  engine_.does = ScriptedEngine::Does::kKeep;
  grpc::ClientContext context;
  Identify(context, kClientToken);
  grpc::Status status;
  std::thread caller(
      [&] { status = v1::Control::NewStub(channel_)->Attach(&context, {}, &attached_); });
  engine_.WaitUntilKept();
  context.TryCancel();
  EXPECT_EQ(engine_.WaitForCancel(), 7u);
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  const std::vector<std::uint64_t> calls = engine_.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_NE(calls[0], calls[1]);
  EXPECT_EQ(engine_.cancelled_call(), calls[1]);
}

TEST_F(ControlServerTest, CarriesTheCallsOnGroupsAndServesNobodyElse) {
  const auto stub = v1::Control::NewStub(channel_);
  v1::SplitRequest split;
  split.set_parent(1000);
  split.set_name("rows");
  v1::GroupReply group;
  grpc::ClientContext first;
  Identify(first, kClientToken);
  EXPECT_TRUE(stub->Split(&first, split, &group).ok());
  EXPECT_EQ(group.group(), 1007u);
  EXPECT_EQ(group.name(), "rows");
  v1::ReleaseRequest release;
  release.set_group(8);
  v1::ReleaseReply released;
  grpc::ClientContext second;
  Identify(second, kClientToken);
  EXPECT_EQ(stub->Release(&second, release, &released).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::CancelReply cancelled;
  grpc::ClientContext third;
  Identify(third, "no session's token");
  EXPECT_EQ(stub->Cancel(&third, {}, &cancelled).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ControlServerTest, WithdrawsAShrinkWhenItsCallerGivesUp) {
  grpc::ClientContext context;
  Identify(context, kClientToken);
  grpc::Status status;
  v1::GroupReply group;
  std::thread caller(
      [&] { status = v1::Control::NewStub(channel_)->Shrink(&context, {}, &group); });
  engine_.WaitUntilKept();
  context.TryCancel();
  EXPECT_EQ(engine_.WaitForCancel(), 7u);
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(engine_.cancelled_call(), engine_.calls()[0]);
}

TEST_F(ControlServerTest, TellsWhatTheEngineHasMeasuredOfItsLinks) {
  EXPECT_TRUE(Costs().ok());
  EXPECT_EQ(costs_.latency_ns(), 8192u);
  EXPECT_EQ(Costs("another-token-16").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  engine_.does = ScriptedEngine::Does::kFail;
  engine_.failure = {FailureCode::kUnavailable, kNoRank, "busy"};
  const grpc::Status refused = Costs();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(RefusalIn(refused).message(), "busy");
}

// Why: people look at the record when the loop is what hangs.
// How: this loop answers nothing.
TEST_F(ControlServerTest, ReadsTheRecordWithoutTheEngineAndToNobodyUnknown) {
  engine_.does = ScriptedEngine::Does::kKeep;
  record::Event event;
  event.kind = record::EventKind::kSubmitted;
  event.time_ns = 1;
  recorder_.AddTrack(record::TrackKind::kEngine, "engine")->Write(event);
  const auto read = [&](const std::string& token, v1::FlightRecordReply& record) {
    grpc::ClientContext context;
    Identify(context, token);
    return v1::Diagnostics::NewStub(channel_)->FlightRecord(&context, {}, &record);
  };
  v1::FlightRecordReply record;
  EXPECT_EQ(read("another-token-16", record).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(read(kToolToken, record).ok());
  EXPECT_EQ(record.node(), "node");
  EXPECT_EQ(record.operations_size(), 1);
  v1::FlightRecordReply another_users;
  EXPECT_TRUE(read(kClientToken, another_users).ok());
  EXPECT_EQ(another_users.operations_size(), 0);
  EXPECT_EQ(another_users.operations_of_others(), 1u);
  EXPECT_GT(record.taken_ns(), 1'600'000'000'000'000'000u);
}

TEST_F(ControlServerTest, RefusesARequestBeyondItsSize) {
  v1::AttachRequest request;
  request.set_job(std::string(100'000, 'j'));
  EXPECT_EQ(Attach(kClientToken, request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(engine_.attached(), 0u);
  EXPECT_TRUE(Attach(kClientToken).ok());  // The connection is still served.
}

// Why: a hello that was under way when the daemon began to stop is answered while another thread
// shuts the server down; its connection must not reach a server that is gone. How: both at once; a
// late one finds the connection closed.
TEST_F(ControlServerTest, ClosesWhatComesWhileItShutsDown) {
  std::thread shutdown([this] { server_->Shutdown(0); });
  for (int i = 0; i < 50; ++i) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const platform::FileDescriptor theirs(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    server_->Adopt(FromProcess(ends[0]));
  }
  shutdown.join();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const platform::FileDescriptor theirs(ends[1]);
  server_->Adopt(FromProcess(ends[0]));
  char byte;
  EXPECT_EQ(::read(theirs.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace mlxcomm::control::control_server_test

#include "daemon/services/control_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "daemon/node/node.h"
#include "daemon/platform/machine.h"
#include "daemon/services/event_stream.h"
#include "daemon/services/posted_calls.h"
#include "daemon/work/scratch_pool.h"
#include "mlxcomm/v1/control.grpc.pb.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"
#include "proto/queue/hello.h"
#include "tests/unit/daemon/node/heard.h"
#include "tests/unit/daemon/node/still_port.h"
#include "tests/unit/never.h"

namespace mlxcomm::services::control_server_test {
namespace {

constexpr char kClientToken[] = "client-token-16b";
constexpr char kToolToken[] = "tool---token-16b";
constexpr intake::SessionId kClient = 7;
constexpr intake::SessionId kAnotherClient = 9;  // Its calls are made on the node itself.

intake::SessionIdentity Identity(intake::SessionId session, queue::ProcessRole role) {
  intake::SessionIdentity identity;
  identity.session = session;
  identity.peer.role = role;
  const bool tool = role == queue::ProcessRole::kTool;
  identity.peer.user = {tool ? "tools-user" : "clients-user", /*sees_all=*/tool};
  return identity;
}

// Two sessions are known: a training process, and 8, a tool.
std::optional<intake::SessionIdentity> Find(std::string_view token, std::string_view grpc_peer) {
  // Names up to 1.5x; later releases only return the kind of socket.
  if (!grpc_peer.starts_with("fd:") && !grpc_peer.starts_with("unix:")) return std::nullopt;
  if (token == kClientToken) return Identity(kClient, queue::ProcessRole::kClient);
  if (token == kToolToken) return Identity(8, queue::ProcessRole::kTool);
  return std::nullopt;
}

// A node without neighbours, and the thread of its loop.
class NodeOnALoop {
 public:
  NodeOnALoop() {
    node_.OnSessionOpened(kClient, {100, "clients-user"});
    node_.OnSessionOpened(kAnotherClient, {101, "clients-user"});
    thread_ = std::thread([this] {
      while (!io_.stopped()) {
        io_.run_one_for(std::chrono::milliseconds(5));
        node_.AdvanceTo(platform::MonotonicNow());
        node_.EndTurn();
      }
    });
  }
  ~NodeOnALoop() {
    io_.stop();
    thread_.join();
  }

  // Returns once the body has run on the loop's thread, and the node's turn has ended.
  void Do(const std::function<void(node::Node&)>& body) {
    std::promise<void> done;
    asio::post(io_, [&] { body(node_); });
    asio::post(io_, [&] { done.set_value(); });
    done.get_future().wait();
  }
  void WaitUntil(const std::function<bool(node::Node&)>& holds) {
    for (bool does = false; !does; std::this_thread::yield()) {
      Do([&](node::Node& node) { does = holds(node); });
    }
  }
  void WaitUntilForming(std::uint64_t jobs) {
    WaitUntil([jobs](node::Node& node) { return node.Metrics().jobs["forming"] == jobs; });
  }

 private:
  static node::NodeOptions Options() {
    node::NodeOptions options;
    options.fabric.self = {node::IdOf(1), "here", "test", 7};
    options.link_latency_ns = 8192;
    return options;
  }

  asio::io_context io_;
  const asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  node::StillPort port_;
  ScratchPool scratch_{1 << 20};
  record::FlightRecorder recorder_{"here"};
  record::OperationCounts counts_;
  node::Node node_{Options(),
                   scratch_,
                   recorder_,
                   counts_,
                   port_,
                   port_,
                   port_,
                   &platform::MonotonicNow,
                   platform::MonotonicNow()};
  std::thread thread_;

 public:
  std::atomic<int> polls = 0;  // Submissions from the processes' queues.
  PostedCalls calls{io_, node_, [this] {
                      ++polls;
                      return std::size_t{0};
                    }};
};

v1::AttachRequest Joining(std::uint32_t rank, std::uint32_t size) {
  v1::AttachRequest request;
  request.set_job("job");
  request.set_rank(rank);
  request.set_size(size);
  return request;
}

// For calls that a test makes itself, ignoring the answer.
template <typename Reply>
class Unheard final : public node::Answer<Reply> {
 public:
  void Succeed(const Reply&) override {}
  void Fail(const Failure&) override {}
};

intake::ControlConnection FromProcess(int connection) {
  intake::ControlConnection made;
  EXPECT_TRUE(made.MakePair());
  made.SetProcess(FileDescriptor(connection));
  return made;
}

// For a call in the name of the session with this token.
struct ContextOf : grpc::ClientContext {
  explicit ContextOf(const std::string& token) {
    AddMetadata(queue::kTokenMetadataKey, token);
    // Only so that a broken server fails the test instead of blocking it.
    set_deadline(std::chrono::system_clock::now() + kNever);
  }
};

class ControlServerTest : public testing::Test {
 protected:
  ControlServerTest() : server_(ControlServer::Create(loop_.calls, &Find, recorder_, events_)) {
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

  grpc::Status Attach(const std::string& token, const v1::AttachRequest& request = Joining(0, 1)) {
    ContextOf context(token);
    return v1::Control::NewStub(channel_)->Attach(&context, request, &attached_);
  }
  // The other client's.
  void AttachAnother(const v1::AttachRequest& request) {
    loop_.Do([&](node::Node& node) {
      node.Call(&jobs::Jobs::Attach, kAnotherClient, std::uint64_t{1}, request,
                std::make_unique<Unheard<v1::AttachReply>>());
    });
  }
  grpc::Status Status(const std::string& token) {
    ContextOf context(token);
    return v1::Diagnostics::NewStub(channel_)->Status(&context, {}, &status_);
  }
  void ExpectNoJob() {
    loop_.Do([](node::Node& node) { EXPECT_TRUE(node.Metrics().jobs.empty()); });
  }
  static v1::Refusal RefusalIn(const grpc::Status& status) {
    v1::Refusal refusal;
    EXPECT_TRUE(refusal.ParseFromString(status.error_details()));
    return refusal;
  }

  NodeOnALoop loop_;
  record::FlightRecorder recorder_{"node"};
  record::EventLog events_;
  std::unique_ptr<ControlServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  v1::AttachReply attached_;
  v1::StatusReply status_;
};

TEST_F(ControlServerTest, AsksForStatusAsTheUserOfTheSession) {
  ASSERT_TRUE(Attach(kClientToken).ok());
  loop_.Do([](node::Node& node) { node.OnSessionOpened(kAnotherClient, {101, "tools-user"}); });
  AttachAnother(Joining(0, 1));
  ASSERT_TRUE(Status(kToolToken).ok());
  EXPECT_EQ(status_.jobs_size(), 2);  // It sees everything.
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
  std::vector<std::unique_ptr<ContextOf>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::EventsReply>>> readers;
  v1::EventsReply reply;
  const auto follow = [&](const std::string& token) {
    contexts.push_back(std::make_unique<ContextOf>(token));
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

// Why: after a pause of the daemon an operation may still be in the queue, and would count as
// ended.
TEST_F(ControlServerTest, QueuesAreReadBeforeACallAboutAnOperation) {
  const auto stub = v1::Control::NewStub(channel_);
  ContextOf of_awaited(kClientToken);
  v1::AwaitedReply awaited;
  EXPECT_TRUE(stub->Awaited(&of_awaited, {}, &awaited).ok());
  EXPECT_EQ(loop_.polls, 1);
  ContextOf of_cancel(kClientToken);
  v1::CancelReply cancelled;
  EXPECT_TRUE(stub->Cancel(&of_cancel, {}, &cancelled).ok());
  EXPECT_EQ(loop_.polls, 2);
}

TEST_F(ControlServerTest, RefusalCarriesCodeRankAndMessage) {
  AttachAnother(Joining(5, 6));
  const grpc::Status status = Attach(kClientToken, Joining(5, 6));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  const v1::Refusal refusal = RefusalIn(status);
  EXPECT_EQ(refusal.code(), static_cast<std::uint32_t>(FailureCode::kAlreadyExists));
  EXPECT_EQ(refusal.rank(), 5);
  EXPECT_NE(refusal.message().find("rank 5"), std::string::npos) << refusal.message();
}

// Why: a message travels in trailers, which gRPC limits: if it is too long, code and rank are lost
// with it. Three bytes for each character, so that the cut falls inside one.
TEST_F(ControlServerTest, ShortensALongMessageBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 5000; ++i) message += "\u20ac";
  grpc::Status status;
  std::thread caller([&] { status = Attach(kClientToken, Joining(0, 2)); });
  loop_.WaitUntilForming(1);
  loop_.Do([&](node::Node& node) { node.RefuseNew({FailureCode::kUnavailable, 2, message}, 0); });
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const v1::Refusal refusal = RefusalIn(status);
  EXPECT_EQ(refusal.rank(), 2);
  EXPECT_EQ(refusal.message(), message.substr(0, 1023));
}

// How: nothing examines this machine, so the call is pending until the node drops it.
TEST_F(ControlServerTest, SaysThatItStopsWhenAnAnswerIsDropped) {
  ContextOf context(kToolToken);
  grpc::Status status;
  v1::DoctorReply reply;
  std::thread caller(
      [&] { status = v1::Diagnostics::NewStub(channel_)->Doctor(&context, {}, &reply); });
  loop_.WaitUntil([](node::Node& node) { return node.NextDeadline() != collective::kNever; });
  loop_.Do([](node::Node& node) { node.AnswerOpenCalls({}); });
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(RefusalIn(status).code(), static_cast<std::uint32_t>(FailureCode::kDaemonStopping));
}

TEST_F(ControlServerTest, ServesNobodyWithoutASession) {
  for (const char* const token : {"", "another-token-16"}) {
    EXPECT_EQ(Attach(token).error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(Status(token).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  ExpectNoJob();
}

TEST_F(ControlServerTest, ShowsToolsTheStatusAndNothingElse) {
  EXPECT_TRUE(Status(kToolToken).ok());
  EXPECT_EQ(Attach(kToolToken).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  ExpectNoJob();
}

TEST_F(ControlServerTest, WithdrawsTheRankWhenItsCallerGivesUp) {
  ContextOf context(kClientToken);
  grpc::Status status;
  std::thread caller([&] {
    status = v1::Control::NewStub(channel_)->Attach(&context, Joining(0, 2), &attached_);
  });
  loop_.WaitUntilForming(1);
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  loop_.WaitUntilForming(0);
  EXPECT_TRUE(Attach(kClientToken).ok());
}

TEST_F(ControlServerTest, CarriesTheCallsOnGroupsAndServesNobodyElse) {
  ASSERT_TRUE(Attach(kClientToken).ok());
  const auto stub = v1::Control::NewStub(channel_);
  v1::SplitRequest split;
  split.set_parent(attached_.group());
  split.set_number(1);
  split.add_ranks(0);
  split.set_name("rows");
  v1::GroupReply group;
  ContextOf first(kClientToken);
  EXPECT_TRUE(stub->Split(&first, split, &group).ok());
  EXPECT_NE(group.group(), attached_.group());
  EXPECT_EQ(group.name(), "job/rows");
  v1::ReleaseRequest release;
  release.set_group(8);
  v1::ReleaseReply released;
  ContextOf second(kClientToken);
  EXPECT_EQ(stub->Release(&second, release, &released).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::CancelReply cancelled;
  ContextOf third("no session's token");
  EXPECT_EQ(stub->Cancel(&third, {}, &cancelled).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ControlServerTest, WithdrawsAShrinkWhenItsCallerGivesUp) {
  AttachAnother(Joining(1, 2));
  ASSERT_TRUE(Attach(kClientToken, Joining(0, 2)).ok());
  loop_.Do([](node::Node& node) { node.FailAll({FailureCode::kRankLost, 1, "lost"}); });
  ContextOf context(kClientToken);
  grpc::Status status;
  v1::ShrinkRequest request;
  request.set_group(attached_.group());
  v1::GroupReply group;
  std::thread caller(
      [&] { status = v1::Control::NewStub(channel_)->Shrink(&context, request, &group); });
  const auto waits = [](node::Node& node) {
    return node.jobs().shrinking().NextDeadline() != jobs::Shrink::kNever;
  };
  loop_.WaitUntil(waits);
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  loop_.WaitUntil([&](node::Node& node) { return !waits(node); });
}

// Why: the record is needed when the loop is what hangs.
// How: the loop waits until the record has been read.
TEST_F(ControlServerTest, ReadsTheRecordWithoutTheLoopAndToNobodyUnknown) {
  std::promise<void> read_it;
  loop_.calls.Report([reported = read_it.get_future().share()](node::Node&) { reported.wait(); });
  record::Event event;
  event.kind = record::EventKind::kSubmitted;
  event.time_ns = 1;
  recorder_.AddTrack(record::TrackKind::kLoop, "loop")->Write(event);
  const auto read = [&](const std::string& token, v1::FlightRecordReply& record) {
    ContextOf context(token);
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
  read_it.set_value();
}

TEST_F(ControlServerTest, RefusesARequestBeyondItsSize) {
  v1::AttachRequest request;
  request.set_job(std::string(100'000, 'j'));
  EXPECT_EQ(Attach(kClientToken, request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectNoJob();
  EXPECT_TRUE(Attach(kClientToken).ok());  // The connection is still served.
}

// Why: a hello that was pending when the daemon began to stop is answered while another thread
// shuts the server down; its connection must not reach a server that is gone.
// How: both at once; a late one finds the connection closed.
TEST_F(ControlServerTest, ClosesWhatComesWhileItShutsDown) {
  std::thread shutdown([this] { server_->Shutdown(0); });
  for (int i = 0; i < 50; ++i) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const FileDescriptor theirs(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    server_->Adopt(FromProcess(ends[0]));
  }
  shutdown.join();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor theirs(ends[1]);
  server_->Adopt(FromProcess(ends[0]));
  char byte;
  EXPECT_EQ(::read(theirs.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace mlxcomm::services::control_server_test

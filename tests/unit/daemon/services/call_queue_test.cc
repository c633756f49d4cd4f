#include "daemon/services/call_queue.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include "daemon/services/unary_call.h"
#include "mlxcomm/v1/control.grpc.pb.h"
#include "tests/unit/never.h"

namespace mlxcomm::services::call_queue_test {
namespace {

// Keeps one Release and answers the others at once.
class Releases {
 public:
  static constexpr std::uint64_t kKept = 7;

  void Release(UnaryCall<v1::ReleaseRequest, v1::ReleaseReply>& call) {
    if (call.request().group() != kKept) return call.MakeAnswer()->Succeed({});
    call.set_on_cancelled([this] { cancelled.set_value(); });
    kept.set_value(call.MakeAnswer());
  }

  std::promise<std::unique_ptr<jobs::ReleaseAnswer>> kept;
  std::promise<void> cancelled;
};

class CallQueueTest : public testing::Test {
 protected:
  CallQueueTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    queue_.emplace(builder);
    server_ = builder.BuildAndStart();
    ServeUnary(*queue_, service_, &v1::Control::AsyncService::RequestRelease, releases_,
               &Releases::Release);
    queue_->Start();
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (const int end : ends) ::fcntl(end, F_SETFL, O_NONBLOCK);
    grpc::AddInsecureChannelFromFd(server_.get(), ends[0]);
    channel_ = grpc::CreateInsecureChannelFromFd("test", ends[1]);
  }
  ~CallQueueTest() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->End();
  }

  grpc::Status Release(grpc::ClientContext& context, std::uint64_t group) {
    // Only so that a broken server fails the test instead of blocking it.
    context.set_deadline(std::chrono::system_clock::now() + kNever);
    v1::ReleaseRequest request;
    request.set_group(group);
    v1::ReleaseReply reply;
    return v1::Control::NewStub(channel_)->Release(&context, request, &reply);
  }
  grpc::StatusCode CallWithGarbage(const std::string& method) {
    grpc::GenericStub stub(channel_);
    const grpc::Slice garbage("\xff\xff\xff");
    grpc::ByteBuffer request(&garbage, 1);
    grpc::ByteBuffer reply;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kNever);
    std::promise<grpc::StatusCode> ended;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &reply,
                   [&](const grpc::Status& status) { ended.set_value(status.error_code()); });
    return ended.get_future().get();
  }

  Releases releases_;
  v1::Control::AsyncService service_;
  std::optional<CallQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(CallQueueTest, ServesCallsWhileOneIsUnanswered) {
  grpc::Status first;
  std::thread caller([&] {
    grpc::ClientContext context;
    first = Release(context, Releases::kKept);
  });
  const std::unique_ptr<jobs::ReleaseAnswer> answer = releases_.kept.get_future().get();
  for (std::uint64_t group = 100; group < 200; ++group) {
    grpc::ClientContext context;
    EXPECT_TRUE(Release(context, group).ok());
  }
  answer->Fail({FailureCode::kInvalidArgument, kNoRank, "not one of its groups"});
  caller.join();
  EXPECT_EQ(first.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Why: such calls are refused before any code runs that would ask for the next one.
TEST_F(CallQueueTest, ServesOnAfterGarbageAndUnknownMethods) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(CallWithGarbage("/mlxcomm.v1.Control/Release"), grpc::StatusCode::INTERNAL);
    EXPECT_EQ(CallWithGarbage("/mlxcomm.v1.Control/Nothing"), grpc::StatusCode::UNIMPLEMENTED);
  }
  grpc::ClientContext context;
  EXPECT_TRUE(Release(context, 8).ok());
}

// Why: gRPC's server does not wait for a connection that has gone, but its call still needs an
// answer.
// How: the call is answered once the server has shut down; then the queue ends.
TEST_F(CallQueueTest, EndsOnlyOnceACallWithoutACallerIsAnswered) {
  grpc::ClientContext context;
  grpc::Status status;
  std::thread caller([&] { status = Release(context, Releases::kKept); });
  const std::unique_ptr<jobs::ReleaseAnswer> answer = releases_.kept.get_future().get();
  context.TryCancel();
  releases_.cancelled.get_future().wait();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  channel_.reset();
  server_->Shutdown(std::chrono::system_clock::now());
  std::future<void> ended = std::async(std::launch::async, [this] { queue_->End(); });
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  answer->Succeed({});
  ended.get();
  server_.reset();
}

}  // namespace
}  // namespace mlxcomm::services::call_queue_test

// The control calls against a real gRPC server, on one end of a socket pair.
#include "client/lib/control_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>

#include "mlxcomm/v1/control.grpc.pb.h"

namespace mlxcomm::client::control_channel_test {
namespace {

using Status = ControlChannel::Status;

constexpr char kSplit[] = "/mlxcomm.v1.Control/Split";
constexpr char kAttach[] = "/mlxcomm.v1.Control/Attach";
constexpr char kShrink[] = "/mlxcomm.v1.Control/Shrink";  // Not served here.
constexpr std::uint64_t kLongNs = 300'000'000'000;
constexpr mlxcomm_interrupt kNobody{nullptr, nullptr};
const std::string kToken("\0\x01token\xff\xfe", 9);

// Names in replies are UTF-8, and tokens are any bytes.
std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[byte >> shift & 15];
  }
  return text;
}

// Attach waits until it is cancelled; Split does what the test tells it to.
class Server final : public v1::Control::CallbackService {
 public:
  Server() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Server() override { End(); }
  void End() { server_->Shutdown(std::chrono::system_clock::now()); }

  // The client's end of a connection to it.
  int Connect() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    grpc::AddInsecureChannelFromFd(server_.get(), ends[0]);
    return ends[1];
  }

  grpc::ServerUnaryReactor* Split(grpc::CallbackServerContext* context,
                                  const v1::SplitRequest* request, v1::GroupReply* reply) override {
    const auto token = context->client_metadata().find("mlxcomm-session-bin");
    if (token != context->client_metadata().end()) {
      reply->set_name(Hex(std::string_view(token->second.data(), token->second.size())));
    }
    reply->set_group(request->parent() + request->number());
    auto* const call = context->DefaultReactor();
    call->Finish(answer ? answer(*request, *reply) : grpc::Status::OK);
    return call;
  }

  class Waiting final : public grpc::ServerUnaryReactor {
   public:
    explicit Waiting(std::atomic<int>& cancelled) : cancelled_(cancelled) {}
    void OnCancel() override {
      ++cancelled_;
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    std::atomic<int>& cancelled_;
  };
  grpc::ServerUnaryReactor* Attach(grpc::CallbackServerContext*, const v1::AttachRequest*,
                                   v1::AttachReply*) override {
    ++begun;
    return new Waiting(cancelled);
  }

  std::function<grpc::Status(const v1::SplitRequest&, v1::GroupReply&)> answer;
  std::atomic<int> begun{0};  // Attach's.
  std::atomic<int> cancelled{0};

 private:
  std::unique_ptr<grpc::Server> server_;
};

std::string Request(std::uint64_t parent, std::uint64_t number) {
  v1::SplitRequest request;
  request.set_parent(parent);
  request.set_number(number);
  return request.SerializeAsString();
}

TEST(ControlChannelTest, CallsWithTheTokenAndReturnsTheReply) {
  Server server;
  ControlChannel channel(server.Connect(), kToken);
  for (std::uint64_t number = 0; number < 100; ++number) {
    const auto end = channel.Call(kSplit, Request(40, number), kLongNs, kNobody);
    ASSERT_EQ(end.status, Status::kOk);
    v1::GroupReply reply;
    ASSERT_TRUE(reply.ParseFromString(end.reply));
    EXPECT_EQ(reply.group(), 40 + number);
    EXPECT_EQ(reply.name(), Hex(kToken));
  }
}

TEST(ControlChannelTest, ReturnsWhyACallWasRefused) {
  Server server;
  server.answer = [](auto&, auto&) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "50% \xe2\x82\xac",
                        std::string("a\0\xff b", 5));
  };
  ControlChannel channel(server.Connect(), kToken);
  const auto end = channel.Call(kSplit, Request(1, 1), kLongNs, kNobody);
  EXPECT_EQ(static_cast<int>(end.status), 9);
  EXPECT_EQ(end.details, std::string("a\0\xff b", 5));
  EXPECT_EQ(channel.Call(kShrink, "", kLongNs, kNobody).status, Status::kUnimplemented);
}

// Why: a group of thousands of ranks is longer than a frame and than HTTP/2's first window.
TEST(ControlChannelTest, CarriesLongRequestsAndReplies) {
  Server server;
  server.answer = [](const v1::SplitRequest& request, v1::GroupReply& reply) {
    reply.set_name(request.name() + request.name());
    return grpc::Status::OK;
  };
  ControlChannel channel(server.Connect(), kToken);
  v1::SplitRequest request;
  request.set_name(std::string(300'000, 'x'));
  const auto end = channel.Call(kSplit, request.SerializeAsString(), kLongNs, kNobody);
  ASSERT_EQ(end.status, Status::kOk);
  v1::GroupReply reply;
  ASSERT_TRUE(reply.ParseFromString(end.reply));
  EXPECT_EQ(reply.name().size(), 600'000u);
}

TEST(ControlChannelTest, RefusesAReplyWithoutEnd) {
  Server server;
  server.answer = [](auto&, v1::GroupReply& reply) {
    reply.set_name(std::string(ControlChannel::kReplyBytesMax + 1, 'x'));
    return grpc::Status::OK;
  };
  ControlChannel channel(server.Connect(), kToken);
  EXPECT_EQ(channel.Call(kSplit, Request(1, 1), kLongNs, kNobody).status, Status::kInternal);
}

// How: each call is given up once the server has begun it; a call that has not begun needs no
// cancelling.
TEST(ControlChannelTest, CancelsAtTheDaemonWhatIsGivenUp) {
  Server server;
  ControlChannel channel(server.Connect(), kToken);
  for (std::uint64_t timeout_ns = 1'000'000; server.begun == 0; timeout_ns *= 2) {
    EXPECT_EQ(channel.Call(kAttach, "", timeout_ns, kNobody).status, Status::kDeadlineExceeded);
  }
  while (server.cancelled < server.begun) std::this_thread::yield();
  const mlxcomm_interrupt once_begun{[](void* of) {
                                       const auto& attaches = *static_cast<Server*>(of);
                                       return attaches.begun > attaches.cancelled ? 1 : 0;
                                     },
                                     &server};
  EXPECT_TRUE(channel.Call(kAttach, "", kLongNs, once_begun).interrupted);
  while (server.cancelled < server.begun) std::this_thread::yield();
  EXPECT_GE(server.cancelled, 2);
  EXPECT_EQ(channel.Call(kSplit, Request(1, 1), kLongNs, kNobody).status, Status::kOk);
}

TEST(ControlChannelTest, GoesOnWithoutWhoeverDoesNotWait) {
  Server server;
  {
    ControlChannel channel(server.Connect(), kToken);
    channel.Notify(kAttach, "", 1);
    channel.Notify(kSplit, Request(1, 1), kLongNs);
  }
  while (server.cancelled < 1) std::this_thread::yield();  // With its connection.
}

TEST(ControlChannelTest, ServesManyThreadsAtOnce) {
  Server server;
  ControlChannel channel(server.Connect(), kToken);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 24; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < 20; ++i) {
        v1::GroupReply reply;
        const auto end = channel.Call(kSplit, Request(thread * 1000, i), kLongNs, kNobody);
        right += reply.ParseFromString(end.reply) && reply.group() == thread * 1000 + i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 24 * 20);
}

// Why: a thread that waits for a daemon that ends must notice at once, and so must later calls.
TEST(ControlChannelTest, EndsWithTheDaemon) {
  auto server = std::make_unique<Server>();
  ControlChannel channel(server->Connect(), kToken);
  std::thread caller(
      [&] { EXPECT_NE(channel.Call(kAttach, "", kLongNs, kNobody).status, Status::kOk); });
  server.reset();
  caller.join();
  EXPECT_EQ(channel.Call(kSplit, Request(1, 1), kLongNs, kNobody).status, Status::kUnavailable);
}

// Why: a program that listens on the socket but is not a daemon must not be trusted.
TEST(ControlChannelTest, IsLostWhereNoHttp2IsSpoken) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ControlChannel channel(ends[1], kToken);
  const std::string garbage(100, '\x7f');
  ASSERT_EQ(::write(ends[0], garbage.data(), garbage.size()), static_cast<ssize_t>(garbage.size()));
  EXPECT_EQ(channel.Call(kSplit, Request(1, 1), kLongNs, kNobody).status, Status::kUnavailable);
  ::close(ends[0]);
}

}  // namespace
}  // namespace mlxcomm::client::control_channel_test

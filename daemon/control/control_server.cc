#include "daemon/control/control_server.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>

#include "mlxcomm/v1/control.grpc.pb.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"
#include "proto/queue/hello.h"
#include "proto/types/utf8.h"

namespace mlxcomm::control {
namespace {

// The client's error holds a kilobyte, and gRPC's trailers, where a message stands
// twice, hold eight.
constexpr std::size_t kMessageBytesMax = 1023;

// For those who look at the status alone; our own library reads the details.
grpc::StatusCode StatusCodeOf(FailureCode code) {
  switch (code) {
    case FailureCode::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case FailureCode::kDeadlineExceeded: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case FailureCode::kResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case FailureCode::kCancelled: return grpc::StatusCode::CANCELLED;
    case FailureCode::kAlreadyExists: return grpc::StatusCode::ALREADY_EXISTS;
    case FailureCode::kPermissionDenied: return grpc::StatusCode::PERMISSION_DENIED;
    case FailureCode::kInternal: return grpc::StatusCode::INTERNAL;
    case FailureCode::kDaemonStopping:
    case FailureCode::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    default: return grpc::StatusCode::FAILED_PRECONDITION;
  }
}

grpc::Status Refuse(const Failure& failure) {
  const std::string message(Utf8Prefix(failure.message, kMessageBytesMax));
  v1::Refusal refusal;
  refusal.set_code(static_cast<std::uint32_t>(failure.code));
  refusal.set_rank(failure.rank);
  refusal.set_message(message);
  return {StatusCodeOf(failure.code), message, refusal.SerializeAsString()};
}

// One unary call. Deleted by gRPC; the Answer that the engine holds may outlive the
// client but not the call, which ends by the answer alone.
class Call : public grpc::ServerUnaryReactor {
 public:
  void OnDone() override { delete this; }
};

class AttachCall final : public Call {
 public:
  AttachCall(ControlPort& port, intake::SessionId session, std::uint64_t number)
      : port_(port), session_(session), number_(number) {}
  void OnCancel() override { port_.CancelAttach(session_, number_); }

 private:
  ControlPort& port_;
  intake::SessionId session_;
  std::uint64_t number_;
};

template <typename Reply>
class CallAnswer final : public Answer<Reply> {
 public:
  CallAnswer(Call* call, Reply* reply) : call_(call), reply_(reply) {}
  ~CallAnswer() override {
    if (call_ != nullptr) {
      Fail({FailureCode::kDaemonStopping, kNoRank, "the daemon is stopping"});
    }
  }
  void Succeed(const Reply& reply) override {
    *reply_ = reply;
    std::exchange(call_, nullptr)->Finish(grpc::Status::OK);
  }
  void Fail(const Failure& failure) override {
    std::exchange(call_, nullptr)->Finish(Refuse(failure));
  }

 private:
  Call* call_;
  Reply* reply_;
};

std::optional<intake::SessionIdentity> Identify(const intake::Intake& intake,
                                                const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto token = metadata.find(queue::kTokenMetadataKey);
  if (token == metadata.end()) return std::nullopt;
  return intake.Find(std::string_view(token->second.data(), token->second.size()), context.peer());
}

grpc::ServerUnaryReactor* RefuseStranger() {
  auto* const call = new Call;
  call->Finish({grpc::StatusCode::UNAUTHENTICATED,
                "this connection has no session of this kind: say hello first"});
  return call;
}

class ControlService final : public v1::Control::CallbackService {
 public:
  ControlService(ControlPort& port, const intake::Intake& intake) : port_(port), intake_(intake) {}

  grpc::ServerUnaryReactor* Attach(grpc::CallbackServerContext* context,
                                   const v1::AttachRequest* request,
                                   v1::AttachReply* reply) override {
    const auto who = Identify(intake_, *context);
    if (!who || who->peer.role != queue::ProcessRole::kClient) return RefuseStranger();
    const std::uint64_t number = attaches_.fetch_add(1) + 1;
    auto* const call = new AttachCall(port_, who->session, number);
    port_.Attach(*who, number, *request,
                 std::make_unique<CallAnswer<v1::AttachReply>>(call, reply));
    return call;
  }

  grpc::ServerUnaryReactor* Detach(grpc::CallbackServerContext* context, const v1::DetachRequest*,
                                   v1::DetachReply* reply) override {
    const auto who = Identify(intake_, *context);
    if (!who || who->peer.role != queue::ProcessRole::kClient) return RefuseStranger();
    auto* const call = new Call;
    port_.Detach(who->session, std::make_unique<CallAnswer<v1::DetachReply>>(call, reply));
    return call;
  }

 private:
  ControlPort& port_;
  const intake::Intake& intake_;
  std::atomic<std::uint64_t> attaches_{0};
};

class DiagnosticsService final : public v1::Diagnostics::CallbackService {
 public:
  DiagnosticsService(ControlPort& port, const intake::Intake& intake)
      : port_(port), intake_(intake) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const v1::StatusRequest*,
                                   v1::StatusReply* reply) override {
    if (!Identify(intake_, *context)) return RefuseStranger();
    auto* const call = new Call;
    port_.Status(std::make_unique<CallAnswer<v1::StatusReply>>(call, reply));
    return call;
  }

 private:
  ControlPort& port_;
  const intake::Intake& intake_;
};

class GrpcControlServer final : public ControlServer {
 public:
  GrpcControlServer(ControlPort& port, const intake::Intake& intake)
      : control_(port, intake), diagnostics_(port, intake) {
    constexpr int kThreads = 4;
    constexpr std::size_t kMemoryBytes = 32 * 1024 * 1024;
    constexpr int kRequestBytesMax = 64 * 1024;
    grpc::ResourceQuota quota("mlxcommd control");
    quota.SetMaxThreads(kThreads);
    quota.Resize(kMemoryBytes);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kRequestBytesMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
    builder.RegisterService(&control_);
    builder.RegisterService(&diagnostics_);
    server_ = builder.BuildAndStart();
  }
  ~GrpcControlServer() override { Shutdown(0); }

  void Adopt(platform::FileDescriptor connection) override {
    const std::lock_guard lock(mutex_);
    if (!ended_) grpc::AddInsecureChannelFromFd(server_.get(), connection.Release());
  }
  void Shutdown(std::uint64_t timeout_ns) override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) return;
    }
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::microseconds(timeout_ns / 1000));
    server_->Wait();
  }

 private:
  ControlService control_;
  DiagnosticsService diagnostics_;
  std::unique_ptr<grpc::Server> server_;
  // A hello may end while another thread shuts the server down: rare, so a lock.
  std::mutex mutex_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ControlServer> ControlServer::Create(ControlPort& port,
                                                     const intake::Intake& intake) {
  return std::make_unique<GrpcControlServer>(port, intake);
}

}  // namespace mlxcomm::control

#include "daemon/control/control_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>

#include "daemon/control/event_stream.h"
#include "daemon/control/plan_reply.h"
#include "daemon/control/record_reply.h"
#include "daemon/platform/machine.h"
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

// A call that its caller may give up, which `cancel` then tells the engine.
class LongCall final : public Call {
 public:
  using CancelMethod = void (ControlPort::*)(intake::SessionId, std::uint64_t);
  LongCall(ControlPort& port, intake::SessionId session, std::uint64_t number,
           CancelMethod cancel)
      : port_(port), session_(session), number_(number), cancel_(cancel) {}
  void OnCancel() override { (port_.*cancel_)(session_, number_); }

 private:
  ControlPort& port_;
  intake::SessionId session_;
  std::uint64_t number_;
  CancelMethod cancel_;
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

grpc::ServerWriteReactor<v1::EventsReply>* RefuseEvents() {
  class Refusal final : public grpc::ServerWriteReactor<v1::EventsReply> {
    void OnDone() override { delete this; }
  };
  auto* const call = new Refusal;
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
    const std::uint64_t number = long_calls_.fetch_add(1) + 1;
    auto* const call = new LongCall(port_, who->session, number, &ControlPort::CancelAttach);
    port_.Attach(*who, number, *request,
                 std::make_unique<CallAnswer<v1::AttachReply>>(call, reply));
    return call;
  }

  grpc::ServerUnaryReactor* Detach(grpc::CallbackServerContext* context, const v1::DetachRequest*,
                                   v1::DetachReply* reply) override {
    return Serve(context, reply, [this](intake::SessionId session, auto answer) {
      port_.Detach(session, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* Split(grpc::CallbackServerContext* context,
                                  const v1::SplitRequest* request,
                                  v1::GroupReply* reply) override {
    return Serve(context, reply, [this, request](intake::SessionId session, auto answer) {
      port_.Split(session, *request, std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseReply* reply) override {
    return Serve(context, reply, [this, request](intake::SessionId session, auto answer) {
      port_.Release(session, request->group(), std::move(answer));
    });
  }

  grpc::ServerUnaryReactor* Shrink(grpc::CallbackServerContext* context,
                                   const v1::ShrinkRequest* request,
                                   v1::GroupReply* reply) override {
    const auto who = Identify(intake_, *context);
    if (!who || who->peer.role != queue::ProcessRole::kClient) return RefuseStranger();
    const std::uint64_t number = long_calls_.fetch_add(1) + 1;
    auto* const call = new LongCall(port_, who->session, number, &ControlPort::CancelShrink);
    port_.Shrink(who->session, number, *request,
                 std::make_unique<CallAnswer<v1::GroupReply>>(call, reply));
    return call;
  }

  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelReply* reply) override {
    return Serve(context, reply, [this, request](intake::SessionId session, auto answer) {
      port_.Cancel(session, *request, std::move(answer));
    });
  }

 private:
  // A call of a training process that the engine answers at once.
  template <typename Reply, typename Body>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* context, Reply* reply, Body body) {
    const auto who = Identify(intake_, *context);
    if (!who || who->peer.role != queue::ProcessRole::kClient) return RefuseStranger();
    auto* const call = new Call;
    body(who->session, std::make_unique<CallAnswer<Reply>>(call, reply));
    return call;
  }

  ControlPort& port_;
  const intake::Intake& intake_;
  std::atomic<std::uint64_t> long_calls_{0};
};

struct ToldCosts {
  Failure failure;
  v1::LinkCosts costs;
};

// The engine's word for a thread that waits for it, and may have given up meanwhile.
class PromisedCosts final : public CostsAnswer {
 public:
  explicit PromisedCosts(std::promise<ToldCosts> promise) : promise_(std::move(promise)) {}
  ~PromisedCosts() override {
    if (!told_) Fail({FailureCode::kDaemonStopping, kNoRank, "the daemon is stopping"});
  }
  void Succeed(const v1::LinkCosts& costs) override { Tell({{}, costs}); }
  void Fail(const Failure& failure) override { Tell({failure, {}}); }

 private:
  void Tell(ToldCosts told) {
    told_ = true;
    promise_.set_value(std::move(told));
  }
  std::promise<ToldCosts> promise_;
  bool told_ = false;
};

class DiagnosticsService final : public v1::Diagnostics::CallbackService {
 public:
  DiagnosticsService(ControlPort& port, const intake::Intake& intake,
                     const telemetry::FlightRecorder& recorder, const telemetry::EventLog& events)
      : port_(port), intake_(intake), recorder_(recorder), events_(events) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const v1::StatusRequest*,
                                   v1::StatusReply* reply) override {
    const auto who = Identify(intake_, *context);
    if (!who) return RefuseStranger();
    auto* const call = new Call;
    port_.Status(who->peer.user, std::make_unique<CallAnswer<v1::StatusReply>>(call, reply));
    return call;
  }

  grpc::ServerUnaryReactor* Topology(grpc::CallbackServerContext* context,
                                     const v1::TopologyRequest*,
                                     v1::TopologyReply* reply) override {
    if (!Identify(intake_, *context)) return RefuseStranger();
    auto* const call = new Call;
    port_.Topology(std::make_unique<CallAnswer<v1::TopologyReply>>(call, reply));
    return call;
  }

  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context,
                                 const v1::PingRequest* request, v1::PingReply* reply) override {
    if (!Identify(intake_, *context)) return RefuseStranger();
    auto* const call = new Call;
    port_.Ping(*request, std::make_unique<CallAnswer<v1::PingReply>>(call, reply));
    return call;
  }

  grpc::ServerUnaryReactor* Doctor(grpc::CallbackServerContext* context, const v1::DoctorRequest*,
                                   v1::DoctorReply* reply) override {
    if (!Identify(intake_, *context)) return RefuseStranger();
    auto* const call = new Call;
    port_.Doctor(std::make_unique<CallAnswer<v1::DoctorReply>>(call, reply));
    return call;
  }

  grpc::ServerWriteReactor<v1::EventsReply>* Events(grpc::CallbackServerContext* context,
                                                    const v1::EventsRequest* request) override {
    const auto who = Identify(intake_, *context);
    if (!who) return RefuseEvents();
    return StreamEvents(events_, event_streams_,
                        {recorder_.node(), who->peer.uid, who->peer.user}, *request);
  }

  // Computed here, not by the engine, which has payload to move; one at a time, so that
  // asking costs one core at the most and leaves gRPC its other threads.
  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const v1::PlanRequest* request, v1::PlanReply* reply) override {
    if (!Identify(intake_, *context)) return RefuseStranger();
    auto* const call = new Call;
    if (planning_.exchange(true)) {
      call->Finish(Refuse({FailureCode::kResourceExhausted, kNoRank,
                           "another plan is being made: ask again"}));
      return call;
    }
    const Failure failure = MakePlans(*request, context->deadline(), *reply);
    planning_ = false;
    call->Finish(failure.ok() ? grpc::Status::OK : Refuse(failure));
    return call;
  }

  // Read here as well, while its writers go on; one at a time, for a copy has its size.
  grpc::ServerUnaryReactor* FlightRecord(grpc::CallbackServerContext* context,
                                         const v1::FlightRecordRequest* request,
                                         v1::FlightRecordReply* reply) override {
    const auto who = Identify(intake_, *context);
    if (!who) return RefuseStranger();
    auto* const call = new Call;
    if (reading_.exchange(true)) {
      call->Finish(Refuse({FailureCode::kResourceExhausted, kNoRank,
                           "another record is being read: ask again"}));
      return call;
    }
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    const auto unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
    WriteRecordReply(recorder_, *request, who->peer.user,
                     {platform::MonotonicNow(), static_cast<std::uint64_t>(unix_ns)}, *reply);
    reading_ = false;
    call->Finish(grpc::Status::OK);
    return call;
  }

 private:
  Failure MakePlans(const v1::PlanRequest& request,
                    std::chrono::system_clock::time_point deadline, v1::PlanReply& reply) {
    v1::LinkCosts own;
    if (NeedsOwnCosts(request)) {
      const ToldCosts told = OwnCosts(deadline);
      if (!told.failure.ok()) return told.failure;
      own = told.costs;
    }
    const absl::Status status = WritePlanReply(request, own, reply);
    if (status.ok()) return {};
    return {absl::IsInvalidArgument(status) ? FailureCode::kInvalidArgument
                                            : FailureCode::kInternal,
            kNoRank, std::string(status.message())};
  }
  ToldCosts OwnCosts(std::chrono::system_clock::time_point deadline) {
    constexpr auto kPatience = std::chrono::seconds(10);  // Or the caller's, who has left then.
    std::promise<ToldCosts> promise;
    std::future<ToldCosts> told = promise.get_future();
    port_.MeasureLinks(std::make_unique<PromisedCosts>(std::move(promise)));
    const auto until = std::min(deadline, std::chrono::system_clock::now() + kPatience);
    if (told.wait_until(until) == std::future_status::ready) return told.get();
    return {{FailureCode::kUnavailable, kNoRank,
             "the daemon's engine did not tell in time what its links cost: give latency, "
             "bandwidth and links yourself, or ask again"},
            {}};
  }

  ControlPort& port_;
  const intake::Intake& intake_;
  const telemetry::FlightRecorder& recorder_;
  const telemetry::EventLog& events_;
  EventStreams event_streams_;
  std::atomic<bool> planning_{false};
  std::atomic<bool> reading_{false};
};

class GrpcControlServer final : public ControlServer {
 public:
  GrpcControlServer(ControlPort& port, const intake::Intake& intake,
                    const telemetry::FlightRecorder& recorder, const telemetry::EventLog& events)
      : control_(port, intake), diagnostics_(port, intake, recorder, events) {
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
                                                     const intake::Intake& intake,
                                                     const telemetry::FlightRecorder& recorder,
                                                     const telemetry::EventLog& events) {
  return std::make_unique<GrpcControlServer>(port, intake, recorder, events);
}

}  // namespace mlxcomm::control

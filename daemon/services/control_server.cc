#include "daemon/services/control_server.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>

#include "absl/strings/str_cat.h"
#include "daemon/intake/guard/connection_relay.h"
#include "daemon/node/status_parts.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/system_facts.h"
#include "daemon/services/answer_budget.h"
#include "daemon/services/answer_thread.h"
#include "daemon/services/call_queue.h"
#include "daemon/services/event_stream.h"
#include "daemon/services/record_reply.h"
#include "daemon/services/refusal.h"
#include "daemon/services/unary_call.h"
#include "daemon/services/visibility.h"
#include "mlxcomm/v1/control.grpc.pb.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"
#include "proto/queue/hello.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::services {
namespace {

std::optional<intake::SessionIdentity> Identify(const FindSession& find,
                                                const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto token = metadata.find(queue::kTokenMetadataKey);
  if (token == metadata.end()) return std::nullopt;
  return find(std::string_view(token->second.data(), token->second.size()), context.peer());
}

class ControlCalls {
 public:
  ControlCalls(PostedCalls& calls, const FindSession& find) : calls_(calls), find_(find) {}

  void Serve(CallQueue& queue, v1::Control::AsyncService& service) {
    using Service = v1::Control::AsyncService;
    using jobs::Jobs;
    ServeUnary(queue, service, &Service::RequestAttach, *this,
               &ControlCalls::Wait<&Jobs::Attach, &Jobs::CancelAttach>);
    ServeUnary(queue, service, &Service::RequestDetach, *this, &ControlCalls::Do<&Jobs::Detach>);
    ServeUnary(queue, service, &Service::RequestSplit, *this, &ControlCalls::Do<&Jobs::Split>);
    ServeUnary(queue, service, &Service::RequestRelease, *this, &ControlCalls::Do<&Jobs::Release>);
    ServeUnary(queue, service, &Service::RequestShrink, *this,
               &ControlCalls::Wait<&Jobs::Shrink, &Jobs::CancelShrink>);
    ServeUnary(queue, service, &Service::RequestCancel, *this,
               &ControlCalls::Do<&Jobs::Cancel, kReadsQueues>);
    ServeUnary(queue, service, &Service::RequestAwaited, *this,
               &ControlCalls::Do<&Jobs::Awaited, kReadsQueues>);
  }

 private:
  // For a call about an operation that may still be in the process's queue.
  static constexpr bool kReadsQueues = true;

  // A call that is answered at once.
  template <auto kCall, bool kReads = false, typename Request, typename Reply>
  void Do(UnaryCall<Request, Reply>& call) {
    const auto who = IdentifyClient(call.context());
    if (!who) return call.Refuse(RefuseStranger());
    calls_.Ask(call.MakeAnswer(), [this, session = who->session, request = call.request()](
                                      node::Node& node, auto answer) {
      if (kReads) calls_.TakeSubmissions();
      node.Call(kCall, session, request, *answer);
    });
  }

  // A call that waits for other ranks until its caller gives up. Its number distinguishes it from
  // the session's other calls, so that a late cancellation does not hit the next one.
  template <auto kCall, auto kCancel, typename Request, typename Reply>
  void Wait(UnaryCall<Request, Reply>& call) {
    const auto who = IdentifyClient(call.context());
    if (!who) return call.Refuse(RefuseStranger());
    const std::uint64_t number = ++long_calls_;
    call.set_on_cancelled([this, session = who->session, number] {
      calls_.Report([session, number](node::Node& node) { node.Call(kCancel, session, number); });
    });
    calls_.Ask(call.MakeAnswer(), [session = who->session, number, request = call.request()](
                                      node::Node& node, auto answer) {
      node.Call(kCall, session, number, request, std::move(answer));
    });
  }

  // Returns the session of a training process, not of a tool.
  std::optional<intake::SessionIdentity> IdentifyClient(const grpc::ServerContext& context) const {
    auto who = Identify(find_, context);
    if (who && who->peer.role != queue::ProcessRole::kClient) return std::nullopt;
    return who;
  }

  PostedCalls& calls_;
  const FindSession& find_;
  std::uint64_t long_calls_ = 0;
};

// Answers a status or a topology once the parts of all nodes have arrived: `give` merges them, on
// the other thread.
template <typename Reply, typename Give>
class MergedAnswer final : public node::StatusAnswer {
 public:
  MergedAnswer(AnswerThread& thread, std::unique_ptr<node::Answer<Reply>> answer, Give give)
      : thread_(thread), answer_(std::move(answer)), give_(std::move(give)) {}
  void Succeed(const std::shared_ptr<const node::StatusParts>& parts) override {
    thread_.Start(std::move(answer_), [parts, give = std::move(give_)](auto& answer) {
      give(parts->merged(), answer);
    });
  }
  void Fail(const Failure& failure) override { answer_->Fail(failure); }

 private:
  AnswerThread& thread_;
  std::unique_ptr<node::Answer<Reply>> answer_;
  Give give_;
};

class DiagnosticsCalls {
 public:
  DiagnosticsCalls(PostedCalls& calls, const FindSession& find,
                   const record::FlightRecorder& recorder, const record::EventLog& events,
                   AnswerBudget::Charge charge)
      : calls_(calls),
        find_(find),
        recorder_(recorder),
        events_(events),
        answers_(std::move(charge)) {}

  void Serve(CallQueue& queue, v1::Diagnostics::AsyncService& service) {
    using Service = v1::Diagnostics::AsyncService;
    ServeUnary(queue, service, &Service::RequestStatus, *this, &DiagnosticsCalls::Status);
    ServeUnary(queue, service, &Service::RequestTopology, *this, &DiagnosticsCalls::Topology);
    ServeUnary(queue, service, &Service::RequestPing, *this, &DiagnosticsCalls::Ping);
    ServeUnary(queue, service, &Service::RequestDoctor, *this, &DiagnosticsCalls::Doctor);
    ServeUnary(queue, service, &Service::RequestEndJob, *this, &DiagnosticsCalls::EndJob);
    ServeUnary(queue, service, &Service::RequestFlightRecord, *this,
               &DiagnosticsCalls::FlightRecord);
    ServeEvents(queue, {service, recorder_.node(), events_, event_streams_,
                        [this](const auto& context) { return Identify(find_, context); }});
  }

 private:
  void Status(UnaryCall<v1::StatusRequest, v1::StatusReply>& call) {
    AskForStatus(call, [](const auto& user, const auto& merged, auto& answer) {
      if (MaySeeAll(user)) return answer.Succeed(merged.status);
      v1::StatusReply reply = merged.status;
      HideOthers(user, reply);
      answer.Succeed(reply);
    });
  }

  // Has only nodes and cables, which all users may see.
  void Topology(UnaryCall<v1::TopologyRequest, v1::TopologyReply>& call) {
    AskForStatus(call, [](const auto&, const auto& merged, auto& answer) {
      answer.Succeed(merged.topology);
    });
  }

  // `give` gets the caller, the merged parts of all nodes and the answer.
  template <typename Request, typename Reply, typename Give>
  void AskForStatus(UnaryCall<Request, Reply>& call, Give give) {
    const auto who = IdentifyCaller(call);
    if (!who) return call.Refuse(RefuseStranger());
    const intake::User& user = who->peer.user;
    auto give_to_user = [user, give](const auto& merged, auto& answer) {
      give(user, merged, answer);
    };
    calls_.Ask(std::make_unique<MergedAnswer<Reply, decltype(give_to_user)>>(
                   merging_, call.MakeAnswer(), std::move(give_to_user)),
               [caller = node::StatusCaller{user.name, user.sees_all}](
                   node::Node& node, auto answer) { node.Status(caller, std::move(answer)); });
  }

  void Ping(UnaryCall<v1::PingRequest, v1::PingReply>& call) {
    if (!IdentifyCaller(call)) return call.Refuse(RefuseStranger());
    calls_.Ask(call.MakeAnswer(), [request = call.request()](node::Node& node, auto answer) {
      node.Ping(request, std::move(answer));
    });
  }

  void Doctor(UnaryCall<v1::DoctorRequest, v1::DoctorReply>& call) {
    if (!IdentifyCaller(call)) return call.Refuse(RefuseStranger());
    calls_.Ask(call.MakeAnswer(),
               [](node::Node& node, auto answer) { node.Doctor(std::move(answer)); });
  }

  void EndJob(UnaryCall<v1::EndJobRequest, v1::EndJobReply>& call) {
    const auto who = IdentifyCaller(call);
    if (!who) return call.Refuse(RefuseStranger());
    const JobId job{call.request().user(), call.request().job()};
    if (!MaySee(who->peer.user, job.user)) {
      return call.Refuse(Refuse(Invalid("no such job of this user")));
    }
    const Failure failure{FailureCode::kCancelled, kNoRank,
                          absl::StrCat("job ", MakePrintable(Utf8Prefix(job.name, 200)),
                                       " was ended by mlxcommctl kill (pid ", who->peer.pid, ")")};
    v1::EndJobReply reply;
    reply.set_caller_pid(static_cast<std::uint64_t>(who->peer.pid));
    calls_.Ask(call.MakeAnswer(), [job, failure, reply](node::Node& node, auto answer) {
      node.Call(&jobs::Jobs::EndJob, job, failure, reply, *answer);
    });
  }

  // Does not use the loop, which moves payload; the record's writers continue while it runs. A copy
  // is as large as the record, so a user has one at a time until gRPC has sent it.
  void FlightRecord(UnaryCall<v1::FlightRecordRequest, v1::FlightRecordReply>& call) {
    const auto who = Identify(find_, call.context());
    if (!who) return call.Refuse(RefuseStranger());
    const uid_t uid = who->peer.uid;
    if (!reading_users_.insert(uid).second) {
      return call.Refuse(Refuse({FailureCode::kResourceExhausted, kNoRank,
                                 "another record is being sent to this user: try again"}));
    }
    call.set_on_over([this, uid] { reading_users_.erase(uid); });
    reading_.Start(call.MakeAnswer(),
                   [this, &request = call.request(), user = who->peer.user](auto& answer) {
                     v1::FlightRecordReply reply;
                     WriteRecordReply(recorder_, request, user,
                                      {platform::MonotonicNow(), platform::UnixNow()}, reply);
                     answer.Succeed(reply);
                   });
  }

  // Also counts the answer against the user. Answers to training processes are not counted: each
  // has few.
  template <typename Call>
  std::optional<intake::SessionIdentity> IdentifyCaller(Call& call) {
    auto who = Identify(find_, call.context());
    if (who) call.set_budget(answers_, who->peer.uid);
    return who;
  }

  PostedCalls& calls_;
  const FindSession& find_;
  const record::FlightRecorder& recorder_;
  const record::EventLog& events_;
  AnswerBudget answers_;
  EventStreams event_streams_;
  AnswerThread merging_;
  AnswerThread reading_;
  std::set<uid_t> reading_users_;  // Users who are being sent a record; the queue's thread.
};

class GrpcControlServer final : public ControlServer {
 public:
  GrpcControlServer(PostedCalls& calls, FindSession find, const record::FlightRecorder& recorder,
                    const record::EventLog& events)
      : find_(std::move(find)),
        control_(calls, find_),
        diagnostics_(calls, find_, recorder, events,
                     [this](uid_t uid, double work) { relay_.Charge(uid, work); }) {
    constexpr std::size_t kMemoryBytes = 32 * 1024 * 1024;
    constexpr int kRequestBytesMax = 64 * 1024;
    constexpr int kMetadataBytesMax = 8 * 1024;
    grpc::ResourceQuota quota("mlxcommd control");
    quota.Resize(kMemoryBytes);
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kRequestBytesMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
    // Counts decoded bytes; FrameMeter counts encoded ones.
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
    // Windows stay at 64 KiB instead of growing with what a connection sends.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.RegisterService(&control_service_);
    builder.RegisterService(&diagnostics_service_);
    queue_.emplace(builder);
    server_ = builder.BuildAndStart();
    control_.Serve(*queue_, control_service_);
    diagnostics_.Serve(*queue_, diagnostics_service_);
    queue_->Start();
  }
  ~GrpcControlServer() override { Shutdown(0); }

  // gRPC needs a third of a millisecond for a connection, so the relay's thread passes it on, not
  // the loop. But connections that arrive faster are served here, so that waiting ones cannot hold
  // all descriptors.
  void Adopt(intake::ControlConnection connection) override {
    if (waiting_ >= kWaitingMax) return Serve(std::move(connection));
    ++waiting_;
    relay_.Post([this, connection = std::move(connection)]() mutable {
      Serve(std::move(connection));
      --waiting_;
    });
  }
  guard::EndCounts ended() const override { return relay_.ended(); }
  void Shutdown(std::uint64_t timeout_ns) override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) return;
    }
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::microseconds(timeout_ns / 1000));
    queue_->End();  // The server does not wait for calls whose callers have gone; the queue does.
  }

 private:
  void Serve(intake::ControlConnection connection) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    grpc::AddInsecureChannelFromFd(server_.get(), connection.grpc.Release());
    relay_.Carry(std::move(connection.process), std::move(connection.relay));
  }
  const FindSession find_;
  // The order matters: the answering parts are destroyed first, then the server, then its queue.
  v1::Control::AsyncService control_service_;
  v1::Diagnostics::AsyncService diagnostics_service_;
  std::optional<CallQueue> queue_;
  // Guards ended_ and the server against a shutdown by another thread. Outlives the relay, whose
  // thread takes it.
  std::mutex mutex_;
  bool ended_ = false;
  static constexpr std::size_t kWaitingMax = 16;
  std::atomic<std::size_t> waiting_ = 0;  // Connections posted to the relay's thread.
  guard::ConnectionRelay relay_;          // Outlives the server, to pass on its last answers.
  std::unique_ptr<grpc::Server> server_;
  ControlCalls control_;
  DiagnosticsCalls diagnostics_;
};

}  // namespace

std::unique_ptr<ControlServer> ControlServer::Create(PostedCalls& calls, FindSession find,
                                                     const record::FlightRecorder& recorder,
                                                     const record::EventLog& events) {
  return std::make_unique<GrpcControlServer>(calls, std::move(find), recorder, events);
}

}  // namespace mlxcomm::services

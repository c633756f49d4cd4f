#include "client/ctl/daemon/daemon_call.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "mlxcomm/v1/diagnostics.grpc.pb.h"
#include "proto/queue/dial.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kTimeoutNs = 5'000'000'000;
constexpr std::uint64_t kNoDeadline = UINT64_MAX;

Failure DialDaemon(const std::string& socket_path, queue::ProcessRole role,
                   std::uint64_t timeout_ns, queue::Dialed& dialed) {
  Failure failure;
  std::string absent;
  bool is_denied = false;
  for (const std::string& candidate : queue::SocketCandidates(socket_path)) {
    failure = queue::Dial(candidate, role, 0, timeout_ns, dialed);
    // Do not start another daemon if one runs but does not answer.
    if (failure.code == FailureCode::kDeadlineExceeded) {
      failure.code = FailureCode::kUnavailable;
      return failure;
    }
    if (failure.code != FailureCode::kUnavailable) return failure;
    absent += (absent.empty() ? "" : "; ") + failure.message;
    is_denied = is_denied || (::access(candidate.c_str(), W_OK) != 0 && errno == EACCES);
  }
  failure.message = absent + (is_denied ? kNotAllowed : kHowToStartIt);
  return failure;
}

Failure FailureOf(const grpc::Status& status) {
  const std::string& message = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::OK: return {};
    case grpc::StatusCode::INVALID_ARGUMENT: return Invalid(message);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {FailureCode::kResourceExhausted, kNoRank, "mlxcommd refuses: " + message};
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {FailureCode::kUnavailable, kNoRank, "mlxcommd does not answer: " + message};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {FailureCode::kInternal, kNoRank,
              "mlxcommd is older than mlxcommctl: install the same release of both"};
    default: return {FailureCode::kInternal, kNoRank, "mlxcommd refuses: " + message};
  }
}

using Stub = v1::Diagnostics::Stub;
using Invoke = std::function<grpc::Status(Stub&, grpc::ClientContext&)>;

// A connection after the hello.
class DaemonSession final : public LauncherSession {
 public:
  explicit DaemonSession(const queue::Dialed& dialed)
      : token_(dialed.hello.token.begin(), dialed.hello.token.end()),
        doorbell_(dialed.descriptors[0]) {
    ::fcntl(dialed.connection, F_SETFL, O_NONBLOCK);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ = v1::Diagnostics::NewStub(
        grpc::CreateCustomInsecureChannelFromFd("mlxcommd", dialed.connection, arguments));
  }

  Failure Call(std::uint64_t timeout_ns, const Invoke& invoke) {
    grpc::ClientContext context;
    context.AddMetadata(queue::kTokenMetadataKey, token_);
    if (timeout_ns != kNoDeadline) {
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::microseconds(timeout_ns / 1000));
    }
    return FailureOf(invoke(*stub_, context));
  }
  Failure FetchStatus(v1::StatusReply& reply, std::uint64_t timeout_ns) override {
    return Call(timeout_ns, [&](Stub& stub, grpc::ClientContext& context) {
      return stub.Status(&context, v1::StatusRequest(), &reply);
    });
  }
  Failure EndJob(const v1::EndJobRequest& request, v1::EndJobReply& reply) override {
    return Call(kTimeoutNs, [&](Stub& stub, grpc::ClientContext& context) {
      return stub.EndJob(&context, request, &reply);
    });
  }
  // The daemon closes its end of the doorbell with the session. macOS reports POLLHUP only with
  // POLLIN.
  bool has_ended() const override {
    pollfd waited{doorbell_.get(), POLLIN | POLLHUP, 0};
    return ::poll(&waited, 1, 0) > 0 && (waited.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  }

 private:
  const std::string token_;
  const FileDescriptor doorbell_;
  std::unique_ptr<Stub> stub_;
};

Failure Call(const std::string& socket_path, std::uint64_t timeout_ns, const Invoke& invoke) {
  queue::Dialed dialed;
  if (Failure failure = DialDaemon(socket_path, queue::ProcessRole::kTool,
                                   std::min(timeout_ns, kTimeoutNs), dialed);
      !failure.ok())
    return failure;
  return DaemonSession(dialed).Call(timeout_ns, invoke);
}

template <typename Request, typename Reply>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Reply*);

template <typename Request, typename Reply>
Failure Ask(const std::string& socket_path, Method<Request, Reply> method, const Request& request,
            Reply& reply, std::uint64_t timeout_ns = kTimeoutNs) {
  return Call(socket_path, timeout_ns, [&](Stub& stub, grpc::ClientContext& context) {
    return (stub.*method)(&context, request, &reply);
  });
}

}  // namespace

void KeepGrpcInitialized() {
  // It never connects, and keeps what all channels share.
  static const auto& kept =
      *new auto(grpc::CreateChannel("unix:mlxcommd", grpc::InsecureChannelCredentials()));
  static_cast<void>(kept);
}

Failure LauncherSession::Open(const std::string& socket_path, std::uint64_t timeout_ns,
                              std::unique_ptr<LauncherSession>& session) {
  queue::Dialed dialed;
  Failure failure = DialDaemon(socket_path, queue::ProcessRole::kLauncher, timeout_ns, dialed);
  if (failure.ok()) session = std::make_unique<DaemonSession>(dialed);
  return failure;
}

Failure FetchStatus(const std::string& socket_path, v1::StatusReply& reply,
                    std::uint64_t timeout_ns) {
  return Ask(socket_path, &Stub::Status, v1::StatusRequest(), reply, timeout_ns);
}

// Retries, because the daemon sends each user one record at a time, and another program may be
// reading it.
Failure FetchRecord(const std::string& socket_path, const v1::FlightRecordRequest& request,
                    v1::FlightRecordReply& reply) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kTimeoutNs);
  for (;;) {
    Failure failure = Ask(socket_path, &Stub::FlightRecord, request, reply);
    const bool is_late = std::chrono::steady_clock::now() >= deadline;
    if (failure.code != FailureCode::kResourceExhausted || is_late) return failure;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Failure FetchTopology(const std::string& socket_path, v1::TopologyReply& reply) {
  return Ask(socket_path, &Stub::Topology, v1::TopologyRequest(), reply);
}

Failure FetchCheckups(const std::string& socket_path, v1::DoctorReply& reply) {
  return Ask(socket_path, &Stub::Doctor, v1::DoctorRequest(), reply);
}

v1::NodeCheckup FetchOwnCheckup(const std::string& socket_path) {
  v1::DoctorReply reply;
  const bool answered = FetchCheckups(socket_path, reply).ok() && reply.nodes_size() > 0;
  return answered ? reply.nodes(0) : v1::NodeCheckup();
}

Failure FetchPing(const std::string& socket_path, const v1::PingRequest& request,
                  v1::PingReply& reply) {
  const std::uint64_t timeout_ns = kTimeoutNs + std::uint64_t{request.timeout_ms()} * 1'000'000;
  return Ask(socket_path, &Stub::Ping, request, reply, timeout_ns);
}

Failure ReadEvents(const std::string& socket_path, const v1::EventsRequest& request,
                   const std::function<bool(const v1::EventsReply&)>& take) {
  const std::uint64_t timeout_ns = request.follow() ? kNoDeadline : kTimeoutNs;
  return Call(socket_path, timeout_ns,
              [&](v1::Diagnostics::Stub& stub, grpc::ClientContext& context) {
                const auto reader = stub.Events(&context, request);
                v1::EventsReply reply;
                while (reader->Read(&reply)) {
                  if (take(reply)) continue;
                  context.TryCancel();
                  static_cast<void>(reader->Finish());
                  return grpc::Status::OK;
                }
                return reader->Finish();
              });
}

}  // namespace mlxcomm::ctl

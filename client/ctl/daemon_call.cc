#include "client/ctl/daemon_call.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "mlxcomm/v1/diagnostics.grpc.pb.h"
#include "proto/queue/dial.h"

namespace mlxcomm::ctl {

Failure FetchStatus(const std::string& socket_path, v1::StatusReply& reply) {
  constexpr std::uint64_t kTimeoutNs = 5'000'000'000;
  queue::Dialed dialed;
  Failure failure;
  std::string absent;
  for (const std::string& candidate : queue::SocketCandidates(socket_path)) {
    failure = queue::Dial(candidate, queue::ProcessRole::kTool, 0, kTimeoutNs, dialed);
    if (failure.code != FailureCode::kUnavailable) break;
    absent += (absent.empty() ? "" : "; ") + failure.message;
  }
  if (failure.code == FailureCode::kUnavailable) {
    failure.message = absent + ". Start it (mlxcommd --config FILE), or name its socket (--socket, "
                       "MLXCOMM_SOCKET)";
  }
  if (!failure.ok()) return failure;
  ::fcntl(dialed.connection, F_SETFL, O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub = v1::Diagnostics::NewStub(
      grpc::CreateCustomInsecureChannelFromFd("mlxcommd", dialed.connection, arguments));
  grpc::ClientContext context;
  context.AddMetadata(queue::kTokenMetadataKey,
                      std::string(dialed.hello.token.begin(), dialed.hello.token.end()));
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::microseconds(kTimeoutNs / 1000));
  const grpc::Status status = stub->Status(&context, v1::StatusRequest(), &reply);
  ::close(dialed.descriptors[0]);
  if (status.ok()) return {};
  const bool silent = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return {silent ? FailureCode::kUnavailable : FailureCode::kInternal, kNoRank,
          "mlxcommd " + std::string(silent ? "does not answer: " : "refuses: ") +
              status.error_message()};
}

}  // namespace mlxcomm::ctl

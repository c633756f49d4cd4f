#include "daemon/services/refusal.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "mlxcomm/v1/control.pb.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::services {
namespace {

// The client's error holds a kilobyte. gRPC's trailers hold eight, and have a message twice.
constexpr std::size_t kMessageBytesMax = 1023;

// Serves clients that only read the status; our library reads the details.
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

}  // namespace

grpc::Status Refuse(const Failure& failure) {
  const std::string message(Utf8Prefix(failure.message, kMessageBytesMax));
  v1::Refusal refusal;
  refusal.set_code(static_cast<std::uint32_t>(failure.code));
  refusal.set_rank(failure.rank);
  refusal.set_message(message);
  return {StatusCodeOf(failure.code), message, refusal.SerializeAsString()};
}

grpc::Status RefuseStranger() {
  return {grpc::StatusCode::UNAUTHENTICATED,
          "this connection has no session of this kind: say hello first"};
}

}  // namespace mlxcomm::services

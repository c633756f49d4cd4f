#include "proto/types/failure.h"

#include <string_view>

namespace mlxcomm {
namespace {
constexpr std::string_view kUnknownFailure = "UNKNOWN";
}

const char* FailureCodeName(FailureCode code) {
  switch (code) {
    case FailureCode::kNone: return "OK";
    case FailureCode::kInvalidArgument: return "INVALID_ARGUMENT";
    case FailureCode::kMismatch: return "MISMATCH";
    case FailureCode::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case FailureCode::kRankLost: return "RANK_LOST";
    case FailureCode::kDaemonLost: return "DAEMON_LOST";
    case FailureCode::kDaemonStopping: return "DAEMON_STOPPING";
    case FailureCode::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case FailureCode::kCancelled: return "CANCELLED";
    case FailureCode::kAlreadyExists: return "ALREADY_EXISTS";
    case FailureCode::kUnavailable: return "UNAVAILABLE";
    case FailureCode::kPermissionDenied: return "PERMISSION_DENIED";
    case FailureCode::kInternal: return "INTERNAL";
  }
  return kUnknownFailure.data();
}

bool IsValid(FailureCode code) { return FailureCodeName(code) != kUnknownFailure; }

}  // namespace mlxcomm

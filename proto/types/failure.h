// The failure of an operation, a group or a session: a code for programs, the rank at fault if any,
// and a sentence for people.
//
// The codes are part of completion entries, the wire protocol and the C interface (mlxcomm.h
// repeats them; test_operation_kinds.py compares them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace mlxcomm {

enum class FailureCode : std::uint8_t {
  kNone = 0,
  kInvalidArgument = 1,    // The caller's mistake; nothing else has changed.
  kMismatch = 2,           // Ranks of a group called different operations.
  kDeadlineExceeded = 3,   // A rank did not call in time; the message names it.
  kRankLost = 4,           // A rank's process, daemon or last route is lost.
  kDaemonLost = 5,         // This node's daemon is lost; set by the client.
  kDaemonStopping = 6,     // This node's daemon or a peer's is stopping.
  kResourceExhausted = 7,  // A limit was reached; the message has the figures.
  kCancelled = 8,          // The caller gave up (Ctrl-C).
  kAlreadyExists = 9,      // The rank is taken.
  kUnavailable = 10,       // No daemon, or no link to a required node.
  kPermissionDenied = 11,  // The daemon does not serve this user, or runs as another user.
  kInternal = 12,          // A bug in mlxcomm.
};

const char* FailureCodeName(FailureCode code);  // "MISMATCH"; "UNKNOWN" for an invalid code.
bool IsValid(FailureCode code);

inline constexpr std::int32_t kNoRank = -1;
inline constexpr std::size_t kFailureMessageBytesMax = 472;

struct Failure {
  FailureCode code = FailureCode::kNone;
  std::int32_t rank = kNoRank;  // The rank at fault, if known.
  std::string message;

  bool ok() const { return code == FailureCode::kNone; }
  friend bool operator==(const Failure&, const Failure&) = default;
};

// INVALID_ARGUMENT, without a rank.
inline Failure Invalid(std::string message) {
  return {FailureCode::kInvalidArgument, kNoRank, std::move(message)};
}

}  // namespace mlxcomm

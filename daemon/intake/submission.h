// The check that makes a call of a submission, and the figures that a process reports about itself.
// The check is a pure function of a private copy of the entry and never reads shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/collective/call.h"
#include "proto/queue/layout.h"

namespace mlxcomm::intake {

using collective::SessionId;

// Reported by the client (queue::CopiedResults), for display only.
struct CopiedResults {
  std::uint64_t results = 0;
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
};

// A call with valid fields whose offsets lie in the session's arena; the group checks the extents,
// which depend on its size. INVALID_ARGUMENT: the operation is answered with it. DATA_LOSS: no
// client library writes it, so the session ends.
absl::StatusOr<collective::Call> CheckSubmission(SessionId session,
                                                 const queue::SubmissionEntry& entry,
                                                 std::byte* arena, std::uint64_t arena_bytes);

}  // namespace mlxcomm::intake

// Checked submissions and the figures that a process reports about itself: plain values that the
// node gets from the intake or the simulator. The check is a pure function of a private copy of the
// entry and never reads shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/queue/layout.h"
#include "proto/types/caller_memory.h"

namespace mlxcomm::intake {

using SessionId = std::uint64_t;  // Never reused, never 0.

// A submission with valid fields. The offsets lie in the session's arena; the group checks the
// extents, which depend on its size.
struct Submission : CallerMemory {
  queue::SubmissionEntry entry;  // The copy.
};

// Reported by the client (queue::CopiedResults), for display only.
struct CopiedResults {
  std::uint64_t results = 0;
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
};

// INVALID_ARGUMENT: the operation is answered with it. DATA_LOSS: no client library writes it, so
// the session ends.
absl::StatusOr<Submission> CheckSubmission(const queue::SubmissionEntry& entry, std::byte* arena,
                                           std::uint64_t arena_bytes);

}  // namespace mlxcomm::intake

// What a process has submitted, once it is known to be possible, and what it reports about itself:
// plain values that the node takes from the intake, or from the simulator. The check is a pure
// function of a private copy of the entry: nothing in it reads shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/queue/layout.h"
#include "proto/types/caller_memory.h"

namespace mlxcomm::intake {

using SessionId = std::uint64_t;  // Never reused, never 0.

// A submission whose fields are all possible. Offsets lie in the session's arena; whether all that
// is read and written does as well depends on the group and is checked there.
struct Submission : CallerMemory {
  queue::SubmissionEntry entry;  // The copy.
};

// What a client reports about itself (queue::CopiedResults): it is shown, and nothing relies on it.
struct CopiedResults {
  std::uint64_t results = 0;
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
};

// Distinguishes entries that a client may have meant, entries that it cannot have meant, and
// garbage.
enum class Finding : std::uint8_t {
  kFine,
  kWrong,    // Answered with INVALID_ARGUMENT and `message`.
  kGarbage,  // No client library writes this: the session ends.
};

struct CheckedSubmission {
  Finding finding = Finding::kGarbage;
  std::string message;  // Empty for kFine.
  Submission submission;
};

CheckedSubmission CheckSubmission(const queue::SubmissionEntry& entry, std::byte* arena,
                                  std::uint64_t arena_bytes);

}  // namespace mlxcomm::intake

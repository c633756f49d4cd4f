// Distinguishes entries that a client may have meant, entries that it cannot have meant, and
// garbage.
//
// A pure function of a private copy of the entry: nothing here reads shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/intake/submission.h"

namespace mlxcomm::intake {

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

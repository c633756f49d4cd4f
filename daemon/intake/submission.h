// What a process has submitted, once it is known to be possible, and what it says of itself: plain values
// that the node takes from the intake, or from the simulator.
//
// Owner: none. Thread: any. Memory: addresses lie in the session's arena.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/queue/layout.h"

namespace mlxcomm::intake {

using SessionId = std::uint64_t;  // Never reused, never 0.

// A submission whose fields are all possible. Offsets lie in the session's arena; that
// what is read and written does as well depends on the group and is checked there.
struct Submission {
  queue::SubmissionEntry entry;  // The copy.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_bytes_available = 0;  // From there to the arena's end.
  std::uint64_t output_bytes_available = 0;
  const std::byte* counts = nullptr;  // Where the kind has a table of counts.
  std::uint64_t counts_bytes_available = 0;
};

// What a client tells of itself (queue::CopiedResults): shown, and believed in nothing.
struct CopiedResults {
  std::uint64_t results = 0;
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
};

}  // namespace mlxcomm::intake

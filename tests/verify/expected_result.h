// What each rank's output must consist of: derived only from the kinds' rows
// (proto/types/operation.h), without a plan.
//
// Owner: the verifier. Thread: any. Memory: vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tests/verify/symbolic_memory.h"
#include "tests/verify/whole_operation.h"

namespace mlxcomm::collective {

struct ExpectedRange {
  std::uint64_t bytes = 0;
  bool of_all_ranks = false;  // Each rank once, final. Otherwise: Only `rank`, unchanged.
  std::uint32_t rank = 0;
  std::uint64_t position = 0;  // The first byte's position in the inputs.
};

// From the output's first byte to its last.
std::vector<ExpectedRange> ExpectedOutput(const WholeOperation& operation, std::uint32_t rank);

// Compares one rank's output with it.
absl::Status CheckOutput(const WholeOperation& operation, const Expressions& expressions,
                         std::uint32_t rank, const Pieces& output);

}  // namespace mlxcomm::collective

// Proves that the plans of all nodes of one operation fit together, or reports the step and the
// node that does not.
//
//   1. Every place lies in its buffer.
//   2. Every send matches one receive of the same length, tag and check, and vice versa.
//   3. No deadlock: no step waits for itself through edges, messages and grants, and
//      eager messages cannot use up the credit that others wait for.
//   4. No race: of two steps that touch the same bytes, one of them writing, one ends
//      before the other begins, regardless of timing.
//   5. Executed in such an order, every byte of every output has the value that the kind of
//      operation requires: each contribution once, finished once, the same on all ranks.
//   6. Each link carries the bytes that the plan is stated to need (OptimalBytes).
//
// Data is tracked as ranges and their origins (verify/), so the size of an operation costs nothing
// but its number of chunks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/verify/whole_operation.h"

namespace mlxcomm::collective {

struct PlanReport {
  PlanKind between_nodes = PlanKind::kAutomatic;
  std::uint16_t nodes = 0;
  std::vector<std::uint64_t> link_bytes;  // [from * nodes + to]
  std::uint64_t steps = 0;                // Of all nodes.
  std::uint64_t messages = 0;
  std::uint64_t scratch_bytes_max = 0;  // Of any node.
};

// The plans of all nodes, by node.
std::vector<Plan> MakePlans(const WholeOperation& operation);
// `plans` is in MakePlans's format.
absl::StatusOr<PlanReport> VerifyPlans(const WholeOperation& operation,
                                       std::span<const Plan> plans);

}  // namespace mlxcomm::collective

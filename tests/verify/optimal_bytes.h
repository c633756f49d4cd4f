// How many bytes a plan may put on each link: the closed forms of plans/plans.h, repeated without
// making a plan.
#pragma once

#include <cstdint>

#include "tests/verify/whole_operation.h"

namespace mlxcomm::collective {

// From one node to another, for the chosen plan between nodes (kAutomatic if there was no choice).
// `layout` may be any node's.
std::uint64_t OptimalBytes(const WholeOperation& operation, const GroupLayout& layout,
                           PlanKind plan, int from, int to);

}  // namespace mlxcomm::collective

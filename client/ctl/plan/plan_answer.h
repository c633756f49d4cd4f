// The answer of `plan`: the plan that jobs would use, the cost of each other plan, and what each
// link carries, by the daemon's own planner and cost model; tests/verify proves that the plans are
// right.
//
// Memory: some 10 MiB at the limits, freed at the end.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/ctl/plan/plan_question.h"

namespace mlxcomm::ctl {

inline constexpr std::uint64_t kPlanStepsMax = 32 * 1024;  // Of all nodes.
inline constexpr std::uint64_t kPlanStepsListedMax = 8 * 1024;

// `own`: the costs of this node's links. INVALID_ARGUMENT with the limits, where the question
// exceeds them.
absl::Status AnswerPlan(const PlanOptions& options, const v1::LinkCosts& own, v1::PlanReply& reply);

}  // namespace mlxcomm::ctl

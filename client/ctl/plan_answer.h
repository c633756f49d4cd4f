// What `plan` answers: the way that jobs would take, what each other way would cost, what each link
// carries. The daemon's own planner and cost model say so; that the plans are right is proved in tests
// (tests/verify).
//
// Owner: none, a pure function. Thread: any. Memory: some 10 MiB at the limits, given back at the end.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/ctl/plan_question.h"

namespace mlxcomm::ctl {

inline constexpr std::uint64_t kPlanStepsMax = 32 * 1024;  // Of all nodes.
inline constexpr std::uint64_t kPlanStepsListedMax = 8 * 1024;

// `own`: what this node's links cost. INVALID_ARGUMENT with the limits, where the question is beyond
// them.
absl::Status AnswerPlan(const PlanOptions& options, const v1::LinkCosts& own, v1::PlanReply& reply);

}  // namespace mlxcomm::ctl

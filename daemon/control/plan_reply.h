// The answer of a Plan call: the plans of all nodes, what each kind of plan would cost,
// what each link carries, and what the verifier says of it.
//
// What proves a plan is bounded by chunks: where the data has more, the proof is made
// for less data by the same plan, and holds if that has the same steps.
//
// Owner: none, a pure function. Thread: aside.h's; up to about a second of one core.
// Memory: some 50 MiB at the limits, given back at the end.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "daemon/control/plan_request.h"

namespace mlxcomm::control {

inline constexpr std::uint64_t kPlanStepsMax = 32 * 1024;   // Of all nodes.
inline constexpr std::uint64_t kPlanChunksMax = 64 * 1024;  // Of all steps, in a proof.
inline constexpr std::uint64_t kPlanStepsListedMax = 8 * 1024;

// INVALID_ARGUMENT with the limits, where the request is beyond them.
absl::Status WritePlanReply(const v1::PlanRequest& request, const v1::LinkCosts& own,
                            v1::PlanReply& reply);

}  // namespace mlxcomm::control

// A PlanReply as text for people: a pure function, tested by its text.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// The choice in one line, the costs of the others, what each link carries, the totals; then the
// steps, where the reply has them.
std::string RenderPlan(const v1::PlanReply& plan);

// "ring in both directions between 8 nodes"
std::string DescribePlan(const v1::PlanReply& plan);
// "send 4.0 MiB to node 1"
std::string DescribeStep(const v1::PlanStep& step);

}  // namespace mlxcomm::ctl

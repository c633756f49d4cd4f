// A plan for people: one line for each step, and one for each file that is left.
#pragma once

#include <string>

#include "client/ctl/service/service_plan.h"

namespace mlxcomm::ctl {

// "run systemctl daemon-reload"
std::string DescribeStep(const ServiceStep& step);
std::string RenderPlan(const ServicePlan& plan);
std::string RenderKept(const ServicePlan& plan);

}  // namespace mlxcomm::ctl

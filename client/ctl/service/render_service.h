// Renders a plan for people: one line for each step, and the files that are kept.
#pragma once

#include <string>

#include "client/ctl/service/service_plan.h"

namespace mlxcomm::ctl {

// "run systemctl daemon-reload"
std::string DescribeStep(const ServiceStep& step);
std::string RenderPlan(const ServicePlan& plan);
std::string RenderKept(const ServicePlan& plan);

}  // namespace mlxcomm::ctl

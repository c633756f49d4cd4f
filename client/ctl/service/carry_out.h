// Carries out the steps of a ServicePlan, in their order, until one fails.
#pragma once

#include <cstddef>
#include <string>

#include "client/ctl/service/service_plan.h"

namespace mlxcomm::ctl {

struct CarriedOut {
  std::size_t steps = 0;  // That were done.
  std::string trouble;    // Why the next one failed; empty: all were done.
  std::string restored;   // What was done about it; empty: nothing had to be.
};

CarriedOut CarryOut(const ServicePlan& plan);

}  // namespace mlxcomm::ctl

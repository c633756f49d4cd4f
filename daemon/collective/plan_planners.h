#pragma once
#include "daemon/collective/plan.h"
namespace mlxcomm::collective {
void PlanRingAllReduce(const Signature& signature, const GroupLayout& layout, Plan& plan);
void PlanRingAllGather(const Signature& signature, const GroupLayout& layout, Plan& plan);
void PlanPointToPoint(const Signature& signature, const GroupLayout& layout,
                      const PointToPoint& ends, Plan& plan);
}  // namespace mlxcomm::collective

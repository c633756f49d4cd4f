// Facts of the process and its machine, as status and doctor show them.
//
// Thread: the loop's; LookAtSystem any.
#pragma once

#include "daemon/intake/intake.h"
#include "daemon/transport/fabric.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

// Clients, arenas and limits: totals, and for each user.
void DescribeUse(const intake::Intake& intake, v1::NodeStatus& node);
void DescribeRdma(const fabric::RdmaSnapshot& snapshot, v1::NodeStatus& node);
// Limits and interfaces; makes many system calls.
v1::NodeCheckup LookAtSystem();

}  // namespace mlxcomm

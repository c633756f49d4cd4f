// What the process and its machine say of a node, in the words of status and doctor.
//
// Thread: the loop's; LookAtSystem any.
#pragma once

#include "daemon/intake/intake.h"
#include "daemon/transport/fabric.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

// Clients, arenas and limits, of all and of each user.
void DescribeUse(const intake::Intake& intake, v1::NodeStatus& node);
void DescribeRdma(const fabric::RdmaSnapshot& snapshot, v1::NodeStatus& node);
// Limits and interfaces: asks the system many times.
v1::NodeCheckup LookAtSystem();

}  // namespace mlxcomm

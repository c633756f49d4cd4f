// Facts of the process and its machine, as status and doctor show them.
//
// Thread: the loop's; ExamineSystem any.
#pragma once

#include <string>
#include <vector>

#include "daemon/control/end_reason.h"
#include "daemon/intake/intake.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

// Clients, arenas and limits: totals, and for each user, whose names it returns in that order; a user
// without a name is empty there.
std::vector<std::string> DescribeUse(const intake::Intake& intake, v1::NodeStatus& node);
// Control connections that were ended, by reason; those of no connection are left out.
void DescribeEnds(const control::EndCounts& ended, v1::NodeStatus& node);
// Limits and interfaces; makes many system calls.
v1::NodeCheckup ExamineSystem();

}  // namespace mlxcomm

// Facts of the process and its machine, as status and doctor show them.
//
// Thread: the loop's; ExamineSystem any.
#pragma once

#include <string>
#include <vector>

#include "daemon/intake/guard/end_reason.h"
#include "daemon/intake/intake.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

// Reports clients, arenas and limits, in total and by user. Returns the users' names in that order.
std::vector<std::string> DescribeUse(const intake::Intake& intake, v1::NodeStatus& node);
// Reports how many control connections were ended, by reason.
void DescribeEnds(const guard::EndCounts& ended, v1::NodeStatus& node);
// Collects limits and interfaces; makes many system calls.
v1::NodeCheckup ExamineSystem();

}  // namespace mlxcomm

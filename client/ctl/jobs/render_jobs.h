// The jobs of a status, as a table.
#pragma once

#include <string>

#include "mlxcomm/v1/ctl.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Those that run or form, and those that ended within the last ten minutes.
v1::JobList JobsOf(const v1::StatusReply& status);
std::string RenderJobList(const v1::JobList& list, bool colours);

}  // namespace mlxcomm::ctl

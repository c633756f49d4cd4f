// Whether what is assumed about a machine's RDMA is true: what its daemon uses, the outcome of each
// trial (doctor/rdma_trials.h), what the daemon's rails have done, and the output of the system's
// own programs.
//
// Thread: main; takes some seconds, more where a driver hangs.
#pragma once

#include <string>

#include "client/ctl/doctor/rdma_trials.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// `status` is empty where no daemon answers.
std::string RdmaReport(const RdmaTrialsOptions& options, const v1::StatusReply& status);

}  // namespace mlxcomm::ctl

// What tells whether that which is taken of a machine's RDMA holds: what its daemon takes, what each
// trial of it did (doctor/rdma_trials.h), what the daemon's rails have done, and what the system's own
// programs say.
//
// Thread: main; some seconds, more where a driver hangs.
#pragma once

#include <string>

#include "client/ctl/doctor/rdma_trials.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// `status` is empty where no daemon answers.
std::string RdmaReport(const RdmaTrialsOptions& options, const v1::StatusReply& status);

}  // namespace mlxcomm::ctl

// What tells whether that which is taken of a machine's RDMA holds: what its daemon takes, what each
// trial of it did (daemon/fabric/rdma/trials.h, in mlxcommd's processes, each with a deadline), what the
// daemon's rails have done, and what the system's own programs say.
//
// Owner: none. Thread: main; some seconds, more where a driver hangs. Memory: the text.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

struct RdmaReportOptions {
  std::string program = "mlxcommd";  // Whose processes try it.
  std::string config_file;           // The daemon's; empty: defaults.
  std::uint64_t trial_timeout_ns = 15'000'000'000;
};

// `status` is empty where no daemon answers.
std::string RdmaReport(const RdmaReportOptions& options, const v1::StatusReply& status);

}  // namespace mlxcomm::ctl

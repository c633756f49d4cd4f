// The reports of mlxcommd's processes that try a machine's RDMA devices
// (daemon/rdma/trials.h): each trial is a process of its own with a deadline, so that one
// that hangs or crashes does not hide the others. For reports, and for __trials.
//
// Thread: main; takes some seconds, more where a driver hangs.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {

struct RdmaTrialsOptions {
  std::string program = "mlxcommd";  // The program whose processes try them.
  std::string config_file;           // The daemon's; empty: defaults.
  std::uint64_t trial_timeout_ns = 15'000'000'000;
  // For all together; further trials are left out.
  std::uint64_t all_timeout_ns = ~std::uint64_t{0};
};

v1::RdmaTrials TryRdma(const RdmaTrialsOptions& options);

}  // namespace mlxcomm::ctl

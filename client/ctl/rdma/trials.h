// Tries a machine's RDMA devices, for bugreport and __trials. Each trial is an mlxcommd process
// with a deadline (daemon/rdma/trials.h), so that one that hangs or crashes does not hide the
// others.
//
// Thread: main; takes some seconds, more if a driver hangs.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {

struct RdmaTrialsOptions {
  std::string config_file;                           // The daemon's; empty: defaults.
  std::uint64_t all_timeout_ns = ~std::uint64_t{0};  // No trial starts later.
};

v1::RdmaTrials TryRdma(const RdmaTrialsOptions& options);

}  // namespace mlxcomm::ctl

// RDMA in the daemon (transports.h): its options from the configuration, its rails, and what
// status says of its devices.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "daemon/transport/rdma/rdma_options.h"
#include "daemon/transport/side_rails.h"
#include "mlxcomm/v1/config.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

// `macos_version`: platform::MacosVersion(); empty where this is no Mac.
fabric::rdma::RdmaOptions MakeRdmaOptions(const v1::RdmaConfig& config,
                                          std::string_view macos_version);
fabric::rdma::RdmaOptions MakeRdmaOptions(const v1::RdmaConfig& config);  // Of this machine.

// What is assumed about devices, a line for each: its name, its value, and where it is from (the
// limits of a system, or the configuration).
std::string DescribeLimits(const v1::RdmaConfig& config);

std::unique_ptr<fabric::SideRails> MakeRdmaRails(const v1::DaemonConfig& config,
                                                 const fabric::FabricOptions& options,
                                                 fabric::Links& links, platform::Wakeup& bell);
// `rails`: of MakeRdmaRails.
void DescribeRdma(const fabric::SideRails& rails, v1::NodeStatus& node);

}  // namespace mlxcomm

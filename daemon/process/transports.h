// The transports that have rails beside the TCP connections (daemon/transport/side_rails.h), which
// is RDMA alone: how their rails are made, by the configuration, and what status tells of them
// besides their rails.
#pragma once

#include <string>

#include "daemon/transport/side_rails.h"
#include "daemon/transport/tcp/tcp_fabric.h"
#include "mlxcomm/v1/config.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

// Those of this daemon, for the fabric.
fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config);
void DescribeSideRails(const fabric::TcpFabric& fabric, v1::NodeStatus& node);

// mlxcommd as a trial of RDMA (transport/rdma/trials.h): a process that tries one thing and ends.
// Writes "worked" or "refused", and then what came of it, to the standard output; the exit code. A
// configuration that cannot be read is taken for an empty one, which is said.
int TryRdma(const std::string& config_file, const std::string& name, const std::string& device);

}  // namespace mlxcomm

// The transports that have rails beside the TCP connections (daemon/fabric/side_rails.h), which
// is RDMA alone: how their rails are made, by the configuration.
#pragma once

#include <string>

#include "daemon/fabric/side_rails.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config);

// mlxcommd as a trial of RDMA (rdma/trials.h): a process that tries one thing and ends.
// Writes "worked" or "refused", and then what came of it, to the standard output; the exit code. A
// configuration that cannot be read is taken for an empty one, which is said.
int TryRdma(const std::string& config_file, const std::string& name, const std::string& device);

}  // namespace mlxcomm

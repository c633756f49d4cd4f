// The transports beside TCP (daemon/fabric/side_rails.h): how the configuration creates their rails.
#pragma once

#include <string>

#include "daemon/fabric/side_rails.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config);

// Runs a trial (rdma/trials.h). Prints "worked" or "refused" and the details; returns the exit code. A
// configuration that cannot be read counts as empty, which is reported.
int TryRdma(const std::string& config_file, const std::string& name, const std::string& device);

}  // namespace mlxcomm

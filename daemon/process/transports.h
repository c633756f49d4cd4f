// The transports beside TCP (daemon/fabric/side_rails.h); transports.cc lists them.
#pragma once

#include <optional>

#include "daemon/fabric/side_rails.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config);

// Runs this process as a transport's child if its arguments select that; returns the exit code.
std::optional<int> RunTransportsChild(int argc, char** argv);

}  // namespace mlxcomm

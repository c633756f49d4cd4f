// Acts on a valid configuration of mlxcommd: checks it, or runs the daemon until a signal ends it
// or another program takes its place. Both return the exit code.
#pragma once

#include "daemon/intake/socket_file.h"
#include "daemon/process/options.h"
#include "daemon/process/successor.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

// Implements --check-config: prints warnings; fails if others may write to the state directory.
int CheckConfig(const Options& options, const v1::DaemonConfig& config);

int RunDaemon(const Options& options, const v1::DaemonConfig& config, const Successor& successor,
              intake::ListenSocket listen_socket);

}  // namespace mlxcomm

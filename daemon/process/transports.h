// Which transports have rails beside the TCP connections (daemon/transport/side_rails.h): the one
// list of them, in which each is a line (transports.cc). A line says how its rails are made, by its
// message of the configuration, and what status tells of it besides its rails.
#pragma once

#include <memory>

#include "daemon/transport/side_rails.h"
#include "daemon/transport/tcp/tcp_fabric.h"
#include "mlxcomm/v1/config.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm {

struct SideTransport {
  Transport transport = Transport::kUnknown;
  std::unique_ptr<fabric::SideRails> (*make)(const v1::DaemonConfig& config,
                                             const fabric::FabricOptions& options,
                                             fabric::Links& links, platform::Wakeup& bell);
  // nullptr: there is nothing to tell.
  void (*describe)(const fabric::SideRails& rails, v1::NodeStatus& node) = nullptr;
};

// Those of this daemon, for the fabric.
fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config);
void DescribeSideRails(const fabric::TcpFabric& fabric, v1::NodeStatus& node);

}  // namespace mlxcomm

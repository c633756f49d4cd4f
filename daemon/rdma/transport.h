// RDMA as the rest of the daemon knows it: how the configuration makes its rails, and its child
// processes.
#pragma once

#include "daemon/fabric/side_rails.h"

namespace mlxcomm::rdma {

extern const fabric::SideTransport kTransport;

}  // namespace mlxcomm::rdma

// A node's identity and bounds. Daemon makes them from the configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/collective/group.h"
#include "daemon/jobs/options.h"
#include "daemon/link/fabric_listener.h"

namespace mlxcomm::node {

struct NodeOptions : jobs::JobsOptions {
  link::FabricOptions fabric;  // fabric.self is this node.
  // Discovery uses these keys (DiscoveryOptions); without keys there is no discovery.
  std::optional<std::vector<DerivedKey>> hello_keys;
  std::string config_file;  // For display, like key_file; empty if there is none.
  std::string key_file;
  std::uint64_t stalled_timeout_ns = 300'000'000'000;
  collective::CreditOptions credit;
  // Returns whether a local process is stopped (SIGSTOP, a debugger).
  collective::IsStoppedCheck is_stopped = [](std::uint64_t) { return false; };
};

}  // namespace mlxcomm::node

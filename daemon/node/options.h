// A node's identity and bounds. Daemon makes them from the configuration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/collective/group.h"
#include "daemon/jobs/membership.h"
#include "daemon/link/fabric_listener.h"

namespace mlxcomm::node {

struct NodeOptions {
  link::FabricOptions fabric;  // fabric.self is this node.
  // Neighbours are looked for, with these keys (DiscoveryOptions); none: they are not.
  std::optional<std::vector<DerivedKey>> hello_keys;
  std::string config_file;  // For people, as key_file; empty: none.
  std::string key_file;
  // For calls that name none; 0: as long as a rank that the call waits for may still come, which is checked
  // once the call has lasted stalled_timeout_ns (collective/roll_call.h).
  std::uint64_t operation_timeout_ns = 0;
  std::uint64_t stalled_timeout_ns = 300'000'000'000;
  std::uint64_t rendezvous_timeout_ns = 300'000'000'000;
  // How long a new job waits for a route to each of its nodes.
  std::uint64_t way_timeout_ns = 5'000'000'000;
  std::size_t groups_per_user_max = jobs::Membership::kGroupsMax;
  // Given to the cost model instead of measurements; 0: measured.
  std::uint64_t link_latency_ns = 0;
  std::uint64_t link_bytes_per_second = 0;
  collective::CreditOptions credit;
  // Whether a local process is stopped (SIGSTOP, a debugger).
  collective::IsStoppedCheck is_stopped = [](std::uint64_t) { return false; };
};

}  // namespace mlxcomm::node

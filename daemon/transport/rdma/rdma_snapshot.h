// What RDMA devices this machine has, and how much of them is in use, as status tells it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types/link_reason.h"

namespace mlxcomm::fabric::rdma {

struct RdmaDeviceSnapshot {
  std::string name;
  bool active = false;
  bool opened = true;  // False: the daemon may not.
  std::string state;   // Of its port, for people.
  std::vector<std::string> gids;
  // Of this daemon, and what there may be; 0 as the most: it was not opened yet.
  std::uint32_t queue_pairs = 0;
  std::uint32_t queue_pairs_max = 0;
  std::uint32_t regions = 0;
  std::uint32_t regions_max = 0;
  std::uint64_t busy_ns = 0;  // A call of its driver has not come back for so long.
  // The process that calls its driver, 0: none runs; how many have ended, and how the last one did.
  int driver_pid = 0;
  std::uint32_t drivers_ended = 0;
  std::string last_end;
};

struct RdmaSnapshot {
  bool enabled = false;
  bool asked_for = false;
  std::string state;                      // What came of looking for devices (RdmaStatus).
  std::string detail;                     // For people.
  LinkReason reason = LinkReason::kNone;  // Why there are none.
  std::vector<RdmaDeviceSnapshot> devices;
};

}  // namespace mlxcomm::fabric::rdma

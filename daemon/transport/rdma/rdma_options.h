// What can be chosen of RDMA rails.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/transport/rdma/limits.h"

namespace mlxcomm::fabric::rdma {

struct RdmaOptions {
  bool enabled = false;
  bool tells = true;          // Also of paths without a device, that there is none, and why.
  std::string library;        // Of verbs; empty: the system's own.
  std::string probe_program;  // Runs RunProbe when it is asked to (probe.h).
  std::uint64_t probe_timeout_ns = 5'000'000'000;
  // Runs RunDriver when it is asked to (driver_process.h); empty: this process calls the
  // driver, and ends with it.
  std::string driver_program;
  Limits limits;
};

}  // namespace mlxcomm::fabric::rdma

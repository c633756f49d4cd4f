// The timeouts and bounds of jobs. NodeOptions extends them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/jobs/membership.h"

namespace mlxcomm::jobs {

struct JobsOptions {
  // The timeout of calls that name none; 0: as long as a rank that the call waits for may still
  // call. That is checked once the call has lasted stalled_timeout_ns (collective/roll_call.h).
  std::uint64_t operation_timeout_ns = 0;
  std::uint64_t rendezvous_timeout_ns = 300'000'000'000;
  // A new job waits this long for a route to each of its nodes.
  std::uint64_t way_timeout_ns = 5'000'000'000;
  std::size_t groups_per_user_max = Membership::kGroupsMax;
  // Given to the cost model instead of measurements; 0: measured.
  std::uint64_t link_latency_ns = 0;
  std::uint64_t link_bytes_per_second = 0;
};

}  // namespace mlxcomm::jobs

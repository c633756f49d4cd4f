// Requests from the daemon to the process that calls a device's driver (driver_process.h), and the
// answers: plain values over a Unix socket, one answer for each request, in order.
//
// The first request names its version, because the program may have been replaced under a running
// daemon.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "daemon/rdma/queue_pair.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::rdma {

struct DriverRequest {
  enum class Kind : std::uint32_t {
    kOpen = 1,  // Must be first, and only once.
    kCheck,     // Checks that the device still exists.
    kMake,      // A queue pair; with its segment and the driver's end of its doorbell.
    kConnect,
    kDestroy,
    kRegister,  // A piece of memory; with its descriptor.
    kDeregister,
  };
  Kind kind = Kind::kCheck;
  std::uint32_t id = 0;  // The daemon's number of the queue pair or region.
  std::array<char, 32> version{};
  std::array<char, 1024> library{};
  std::array<char, 64> device{};
  queue::SchedulingPolicy scheduling = {};  // kOpen
  Limits limits = {};
  QueuePairShape shape = {};
  Gid gid{};
  QueuePairAddress peer = {};
  std::uint64_t offset = 0;  // kRegister: from the descriptor's beginning.
  std::uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<DriverRequest>);

struct DriverAnswer {
  std::int32_t code = 0;     // absl::StatusCode
  std::uint32_t reason = 0;  // LinkReason
  std::array<char, 500> message{};
  QueuePairAddress address;  // kMake
  Limits limits;             // kOpen: those of the device, within the requested ones.
};
static_assert(std::is_trivially_copyable_v<DriverAnswer>);

}  // namespace mlxcomm::rdma

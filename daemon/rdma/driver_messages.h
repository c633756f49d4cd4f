// What the daemon asks of the process that calls a device's driver (driver_process.h), and the
// answers: plain values over a Unix socket, one answer for each request, in order.
//
// Both ends are the same program, unless that was replaced under a daemon that runs: so the first
// request says which version asks.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "daemon/rdma/queue_pair.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::rdma {

struct DriverRequest {
  enum class Kind : std::uint32_t {
    kOpen = 1,  // The device; once, and first.
    kLook,      // Whether it is still there.
    kMake,      // A queue pair; with its segment and the driver's end of its doorbell.
    kConnect,
    kDestroy,
    kRegister,  // A piece of memory; with its descriptor.
    kDeregister,
  };
  Kind kind = Kind::kLook;
  std::uint32_t id = 0;  // Of the queue pair or region, as the daemon numbers them.
  std::array<char, 32> version{};
  std::array<char, 1024> library{};
  std::array<char, 64> device{};
  queue::SchedulingPolicy scheduling = {};  // kOpen: the daemon's.
  Limits limits = {};
  QueuePairShape shape = {};
  Gid gid{};
  QueuePairAddress peer = {};
  std::uint64_t offset = 0;  // Of what is registered, in what the descriptor is of.
  std::uint64_t bytes = 0;
};
static_assert(std::is_trivially_copyable_v<DriverRequest>);

struct DriverAnswer {
  std::int32_t code = 0;     // Of absl::Status,
  std::uint32_t reason = 0;  // and its LinkReason.
  std::array<char, 500> message{};
  std::uint32_t is_there = 0;
  std::uint32_t messages = 0;  // kMake: each way, as they were granted.
  QueuePairAddress address;
  Limits limits;  // kOpen: what of those asked for the device has.
};
static_assert(std::is_trivially_copyable_v<DriverAnswer>);

}  // namespace mlxcomm::rdma

// A device whose driver is called by a process of its own (driver_process.h): the same Device,
// QueuePair and Region as verbs_device.h has, with the driver's part elsewhere.
//
// Posting writes a request into shared memory, and Poll reads completions from there: neither waits.
// What the other process writes is not believed: it is copied, checked against what was posted, and
// whatever does not fit fails the queue pair.
//
// Owner: DriverThread, and its queue pairs and regions. Thread: as queue_pair.h has it. Memory: a
// segment for each queue pair.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/fabric/rdma/driver_process.h"
#include "daemon/fabric/rdma/queue_pair.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::fabric::rdma {

// Starts the process and opens the device there. UNAVAILABLE, NOT_FOUND: as Library::Open.
absl::StatusOr<std::shared_ptr<Device>> OpenInProcess(
    const std::string& program, const std::string& library, const std::string& name,
    const Limits& limits, const queue::SchedulingPolicy& scheduling,
    std::uint64_t call_ns = DriverProcess::kCallNs);

}  // namespace mlxcomm::fabric::rdma

// Finds out which RDMA devices there are in a process of its own: to load the library, to open a
// device or to ask it something has been seen to hang, and to crash, and then it is that process
// that does. Only what has answered there is used here.
//
//   Probe ──spawns──▶ program: RunProbe ──lines──▶ Probe ──deadline──▶ killed, "does not answer"
//
// A process that hangs in the driver may not even die when it is killed. It is not waited for;
// the next probe looks whether it has gone, and until then there is none.
//
// Thread: Probe: one that may wait for its deadline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/rdma/queue_pair.h"

namespace mlxcomm::rdma {

// The argument that makes a program the probe; the library's path follows, or "".
inline constexpr char kProbeArgument[] = "--probe-rdma";

// In the probe's process: writes what it finds to the standard output; the exit code.
int RunProbe(const std::string& library, const Limits& limits);

// NOT_FOUND: there is no library. UNAVAILABLE: the driver crashes, or says an error.
// DEADLINE_EXCEEDED: it does not answer.
absl::StatusOr<std::vector<DeviceFacts>> Probe(const std::string& program,
                                               const std::string& library,
                                               std::uint64_t timeout_ns);

}  // namespace mlxcomm::rdma

// Lists the RDMA devices in a process of its own, because loading the library, opening a device or
// querying it may hang or crash. Only devices that answered there are used here.
//
//   Probe ──spawns──▶ program: RunProbe ──text──▶ Probe ──deadline──▶ killed, "does not answer"
//
// A process that hangs in the driver may survive SIGKILL. Probe does not wait for it; the next
// probe checks whether it has exited, and is refused until then.
//
// Thread: Probe blocks until its deadline.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/rdma/queue_pair.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::rdma {

// The argument that selects RunProbe; the library's path follows, or "".
inline constexpr char kProbeArgument[] = "--probe-rdma";

int RunProbe(const std::string& library);

// NOT_FOUND: no library. UNAVAILABLE: the driver crashed or reported an error. DEADLINE_EXCEEDED:
// no answer.
absl::StatusOr<v1::TransportStatus> Probe(const std::string& program, const std::string& library,
                                          std::uint64_t timeout_ns);

}  // namespace mlxcomm::rdma

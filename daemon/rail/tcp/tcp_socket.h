// Socket options of a rail: one long-lived connection over a cable, busy in both directions.
#pragma once

#include <cstdint>
#include <optional>

namespace mlxcomm::rail {

// Call it before connect or listen; accepted sockets inherit it. Replaces BBR, the default of some
// hosts, whose timer costs a third of a cable's throughput.
void LeavePacing(int socket);

// Sets up a connected socket. Ignores options that the socket does not support.
void SetUpSocket(int socket);

// Sizes the send buffer for some milliseconds or two round trips: bytes in it cannot move to
// another rail. If the system would grant too little, it chooses the size. Pass the result as
// `fitted` the next time.
bool FitSendBuffer(int socket, double bytes_per_second, std::uint64_t round_trip_ns, bool fitted);

// Returns the bytes not acknowledged by the peer's system, or nothing if the system does not report
// them.
std::optional<std::uint64_t> UnacknowledgedBytes(int socket);

}  // namespace mlxcomm::rail

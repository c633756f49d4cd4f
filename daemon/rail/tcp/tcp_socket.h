// How the socket of a rail is set: for one long connection over a cable that carries much
// both ways, whatever the host's defaults are made for.
#pragma once

#include <cstdint>
#include <optional>

namespace mlxcomm::rail {

// Of one that is open and neither connected nor listening yet; what a listener accepts has it from
// there. BBR, the default of some hosts, is made for long ways: it sends by a timer, at a rate that it
// measures again whenever the connection was idle, and has the system pace the connection for good,
// even when another algorithm is chosen later. On a cable and on loopback that costs a third of the
// throughput. No effect where the system's choice is another one, or has no such option.
void LeavePacing(int socket);

// Of one that is connected. Takes what the system knows of it; other sockets, as those of tests, stay
// as they are.
void SetUpSocket(int socket);

// Lets the system hold what the connection carries in some milliseconds, or in two round trips:
// what it holds can neither be taken to another rail nor be overtaken by acknowledgements. Where
// it would grant too little the size is left to it, or given back: true says that it is fitted,
// and is passed the next time. `round_trip_ns` 0: not known.
bool FitSendBuffer(int socket, double bytes_per_second, std::uint64_t round_trip_ns, bool fitted);

// What was written and the other side's system has not acknowledged. Nothing: the system does not
// say.
std::optional<std::uint64_t> UnacknowledgedBytes(int socket);

}  // namespace mlxcomm::rail

// How the socket of a rail is set: for one long connection over a cable that carries much
// both ways, whatever the host's defaults are made for.
//
// Owner: none, functions. Thread: any. Memory: none.
#pragma once

#include <cstdint>
#include <optional>

namespace mlxcomm::fabric {

// Takes what the system knows of it; other sockets, as those of tests, stay as they are.
void SetUpSocket(int socket);

// Lets the system hold what the connection carries in some milliseconds: what it holds can
// neither be taken to another rail nor be overtaken by acknowledgements. Where it would grant
// too little for the rate, its own sizing is left, or put back.
void FitSendBuffer(int socket, double bytes_per_second);

// What was written and the other side's system has not acknowledged. Nothing: not told.
std::optional<std::uint64_t> UnacknowledgedBytes(int socket);

// What was written and the other side's system has not acknowledged. Nothing: not told.
std::optional<std::uint64_t> UnacknowledgedBytes(int socket);

}  // namespace mlxcomm::fabric

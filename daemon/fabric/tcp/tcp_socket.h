// How the socket of a rail is set: for one long connection over a cable that carries much
// both ways, whatever the host's defaults are made for.
//
// Owner: none, a function. Thread: any. Memory: none.
#pragma once

namespace mlxcomm::fabric {

// Takes what the system knows of it; other sockets, as those of tests, stay as they are.
void SetUpSocket(int socket);

}  // namespace mlxcomm::fabric

// A write to a socket whose other side has gone is an error code, not a SIGPIPE. Linux is told
// with each send, macOS once for the socket; whoever sends does both.
//
// Owner: nobody, it is two lines. Thread: any. Memory: none.
#pragma once

namespace mlxcomm::queue {

// A flag of send and sendmsg.
extern const int kNoSignal;

// For the socket, before the first send. False: errno says why.
bool SilenceSignals(int socket);

}  // namespace mlxcomm::queue

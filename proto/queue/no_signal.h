// A write to a socket whose other side has gone must give an error code, not a SIGPIPE. Linux needs
// a flag with each send, macOS one option for the socket; callers use both.
//
// Thread: any.
#pragma once

namespace mlxcomm::queue {

// A flag of send and sendmsg.
extern const int kNoSignal;

// For the socket, before the first send. False: errno says why.
bool SilenceSignals(int socket);

}  // namespace mlxcomm::queue

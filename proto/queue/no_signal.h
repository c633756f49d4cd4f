// A write to a socket whose other side has gone is an error code, not a SIGPIPE. Linux is told
// with each send, macOS once for the socket; whoever sends does both.
//
// Owner: nobody, it is two lines. Thread: any. Memory: none.
#pragma once

#include <sys/socket.h>

namespace mlxcomm::queue {

// A flag of send and sendmsg.
#if defined(MSG_NOSIGNAL)
inline constexpr int kNoSignal = MSG_NOSIGNAL;
#else
inline constexpr int kNoSignal = 0;
#endif

// For the socket, before the first send. False: errno says why.
inline bool SilenceSignals([[maybe_unused]] int socket) {
#if defined(SO_NOSIGPIPE)
  const int on = 1;
  return ::setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on) == 0;
#else
  return true;
#endif
}

}  // namespace mlxcomm::queue

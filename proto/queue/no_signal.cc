#include "proto/queue/no_signal.h"

#include <sys/socket.h>

namespace mlxcomm::queue {

#if defined(MSG_NOSIGNAL)
const int kNoSignal = MSG_NOSIGNAL;
#else
const int kNoSignal = 0;
#endif

bool SilenceSignals([[maybe_unused]] int socket) {
#if defined(SO_NOSIGPIPE)
  const int on = 1;
  return ::setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on) == 0;
#else
  return true;
#endif
}

}  // namespace mlxcomm::queue

#include "proto/queue/socket_options.h"

#include <sys/socket.h>
#include <unistd.h>

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

void RefuseDescriptors([[maybe_unused]] int socket) {
#if defined(__linux__)
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS, which older headers lack.
  const int none = 0;
  (void)::setsockopt(socket, SOL_SOCKET, kPassRights, &none, sizeof none);
#endif
}

#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)

std::optional<PeerCredentials> FindPeer(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return PeerCredentials{credentials.uid, credentials.pid};
}

#else

std::optional<PeerCredentials> FindPeer(int socket) {
  PeerCredentials credentials;
  gid_t ignored;
  if (::getpeereid(socket, &credentials.uid, &ignored) != 0) return {};
  socklen_t length = sizeof credentials.pid;
  if (::getsockopt(socket, SOL_LOCAL, LOCAL_PEERPID, &credentials.pid, &length) != 0) {
    credentials.pid = 0;
  }
  return credentials;
}

#endif

}  // namespace mlxcomm::queue

#include "daemon/platform/peer_credentials.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"

namespace mlxcomm::platform {

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return absl::UnavailableError(std::strerror(errno));
  }
  return PeerCredentials{credentials.uid, credentials.gid, credentials.pid};
}

}  // namespace mlxcomm::platform

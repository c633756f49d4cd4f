#include "daemon/platform/peer_credentials.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"

namespace mlxcomm::platform {

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket) {
  PeerCredentials credentials;
  if (::getpeereid(socket, &credentials.uid, &credentials.gid) != 0) {
    return absl::UnavailableError(std::strerror(errno));
  }
  socklen_t length = sizeof credentials.pid;
  if (::getsockopt(socket, SOL_LOCAL, LOCAL_PEERPID, &credentials.pid, &length) != 0) {
    credentials.pid = 0;
  }
  return credentials;
}

}  // namespace mlxcomm::platform

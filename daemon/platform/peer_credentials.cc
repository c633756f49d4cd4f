#include "daemon/platform/peer_credentials.h"

#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/status/status.h"

namespace mlxcomm::platform {

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket) {
  const std::optional<PeerCredentials> found = queue::FindPeer(socket);
  if (!found) return absl::UnavailableError(std::strerror(errno));
  return *found;
}

}  // namespace mlxcomm::platform

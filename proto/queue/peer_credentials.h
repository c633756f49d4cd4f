// The process at the other end of a Unix socket, according to the kernel: a client asks who listens, a
// daemon who has connected.
#pragma once

#include <sys/types.h>

#include <optional>

namespace mlxcomm::queue {

struct PeerCredentials {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // 0: not in our process namespace.
};

// None, with errno: the system does not say.
std::optional<PeerCredentials> FindPeer(int socket);

}  // namespace mlxcomm::queue

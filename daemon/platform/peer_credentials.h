// The process at the other end of a Unix socket, according to the kernel.
#pragma once

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace mlxcomm::platform {

struct PeerCredentials {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // 0: not in our process namespace.
};

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket);

}  // namespace mlxcomm::platform

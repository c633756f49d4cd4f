// The process at the other end of a Unix socket (proto/queue/peer_credentials.h), with the system's words
// where it does not say.
#pragma once

#include "absl/status/statusor.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::platform {

using queue::PeerCredentials;

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket);

}  // namespace mlxcomm::platform

// System-specific options of sockets: no SIGPIPE, and the process at the other end. A write to a
// closed socket must return an error instead of raising SIGPIPE. Linux needs a flag for each send,
// macOS an option of the socket; callers use both.
#pragma once

#include <sys/types.h>

#include <optional>

namespace mlxcomm::queue {

// A flag for send and sendmsg.
extern const int kNoSignal;
// Call it before the first send. False with errno set.
bool SilenceSignals(int socket);

// From Linux 6.16 on, nobody can pass descriptors over the socket: to discard one, the system may
// have to wait for its file system or for a connection that lingers. Other systems ignore it.
void RefuseDescriptors(int socket);

struct PeerCredentials {
  uid_t uid = 0;
  pid_t pid = 0;  // 0 if it is not in our process namespace.
};
// The process at the other end of a Unix socket, according to the kernel. None with errno set.
std::optional<PeerCredentials> FindPeer(int socket);

}  // namespace mlxcomm::queue

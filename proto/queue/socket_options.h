// What sockets need on each system beyond POSIX: no SIGPIPE, and the process at the other end.
//
// A write to a socket whose other side has gone must give an error code, not a SIGPIPE. Linux needs
// a flag with each send, macOS one option for the socket; callers use both.
#pragma once

#include <sys/types.h>

#include <optional>

namespace mlxcomm::queue {

// A flag of send and sendmsg.
extern const int kNoSignal;
// For the socket, before the first send. False: errno says why.
bool SilenceSignals(int socket);

struct PeerCredentials {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;  // 0: not in our process namespace.
};
// The process at the other end of a Unix socket, according to the kernel: a client asks which
// process listens, a daemon which one has connected. None, with errno: the system does not say.
std::optional<PeerCredentials> FindPeer(int socket);

}  // namespace mlxcomm::queue

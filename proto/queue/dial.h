// Connects a local process to its daemon: the paths of the sockets, and the hello.
//
//   no daemon listens              ─▶ UNAVAILABLE: try another socket, or start a daemon
//   another user's process listens ─▶ PERMISSION_DENIED: nothing is sent to it
//   the daemon does not answer     ─▶ DEADLINE_EXCEEDED: do not bypass it with another one
//
// The caller owns the returned descriptors. Thread: any; blocks up to the given time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/queue/hello.h"
#include "proto/types/failure.h"

namespace mlxcomm::queue {

inline constexpr char kServiceSocket[] = "/var/run/mlxcommd/mlxcommd.sock";

// The socket of this user's private daemon: mlxcommd-UID/mlxcommd.sock in the first of
// $XDG_RUNTIME_DIR, the user's cache folder (macOS), $TMPDIR and /tmp that makes a valid socket
// path.
std::string PrivateSocketPath();
// The value of a variable; empty if it is not set.
std::string Environment(const char* name);

std::string PrivateLogFile(const std::string& socket_path);

// The sockets to try, in order: only `named` if not empty, otherwise only $MLXCOMM_SOCKET if set,
// otherwise the service's socket and the private daemon's.
std::vector<std::string> SocketCandidates(const std::string& named);

struct Dialed {
  int connection = -1;  // Used by the gRPC channel.
  DaemonHello hello{};
  int descriptors[kClientDescriptors] = {-1, -1, -1};
  int descriptor_count = 0;
};

// PERMISSION_DENIED, with path and owner: another user could put a socket at this path. Root may,
// except at the private daemon's path, whose folder must not be writable by its group either. A
// missing folder is fine.
Failure CheckSocketPlace(const std::string& socket_path, bool is_private);

// Connects to a socket and exchanges hellos. The listener gets the process's memory, so it must run
// as this user or (not at the private daemon's path) as root, and no other user may be able to put
// a socket at the path. On failure nothing stays open. `interrupted` may be empty; it is called
// about every 50 ms, and true returns CANCELLED.
Failure Dial(const std::string& socket_path, ProcessRole role, std::uint64_t arena_bytes,
             std::uint64_t timeout_ns, Dialed& dialed,
             const std::function<bool()>& interrupted = {});

// Returns true if a daemon runs at the socket, even if the system refuses connections: macOS does
// so while the backlog is full. A daemon holds a lock on its PATH.running until it ends.
bool IsPresent(const std::string& socket_path);
std::string PresenceFile(const std::string& socket_path);

}  // namespace mlxcomm::queue

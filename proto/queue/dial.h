// How a local process reaches its daemon: where the sockets are, and the hello.
//
//   nobody listens, or another program ─▶ UNAVAILABLE: look elsewhere, or start a daemon
//   another user's process listens     ─▶ PERMISSION_DENIED: it is sent nothing
//   one listens but does not answer    ─▶ DEADLINE_EXCEEDED: a daemon is there, and must not
//                                         be bypassed
//
// The caller owns the descriptors that are returned. Thread: any; blocks up to the given time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/queue/hello.h"
#include "proto/types/failure.h"

namespace mlxcomm::queue {

inline constexpr char kServiceSocket[] = "/var/run/mlxcommd/mlxcommd.sock";

// The socket of this user's private daemon: mlxcommd-UID/mlxcommd.sock under
// $XDG_RUNTIME_DIR, else on macOS the user's cache folder, else $TMPDIR, else /tmp. Folders whose
// socket would have a longer path than the system takes are left out.
std::string PrivateSocketPath();
// The value of a variable; empty where it is not set.
std::string Environment(const char* name);

std::string PrivateLogFile(const std::string& socket_path);

// Where to look, in order: `named` alone if not empty, else $MLXCOMM_SOCKET alone,
// else the service's socket and the private daemon's.
std::vector<std::string> SocketCandidates(const std::string& named);

struct Dialed {
  int connection = -1;  // -1: failed. Becomes the gRPC channel.
  DaemonHello hello{};
  int descriptors[kClientDescriptors] = {-1, -1, -1};
  int descriptor_count = 0;
};

// PERMISSION_DENIED, with path and owner: another user than this one could put a socket there, in its
// folder or by the folder. Root may, but not where the private daemon's is, nor its folder's group. What is
// not there yet is fine.
Failure CheckSocketPlace(const std::string& socket_path, bool is_private);

// Connects to one socket and says hello. Only a listener of this process's user or of root (not at the
// private daemon's path) is believed, at a place where only these may put one: it gets the process's
// memory, and in a folder such as /tmp any user may put a socket at the expected path. On failure nothing
// is left open. `interrupted` may be empty, else it is asked about every 50 ms; true gives CANCELLED.
Failure Dial(const std::string& socket_path, ProcessRole role, std::uint64_t arena_bytes,
             std::uint64_t timeout_ns, Dialed& dialed,
             const std::function<bool()>& interrupted = {});

// Whether a daemon is at a socket although the system refuses connections to it: macOS does so when
// the backlog is full, just as where nobody listens.
//
// From before it binds until its socket or its process is gone, a daemon holds a lock on
// PATH.running, which all who may connect can look at, and which contains its process's number. It
// is not the lock that decides who may be the daemon (PATH.lock): with a shared lock on that one,
// anybody could keep a daemon from starting. A daemon makes a new file of its own each time, so
// nobody can hold its lock first.
bool IsPresent(const std::string& socket_path);
std::string PresenceFile(const std::string& socket_path);

}  // namespace mlxcomm::queue

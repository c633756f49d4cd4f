// Whether a daemon is at a socket although the system refuses connections to it: macOS does so when
// the backlog is full, just as where nobody listens.
//
// From before it binds until its socket or its process is gone, a daemon holds a lock on
// PATH.running, which all who may connect can look at, and which contains its process's number. It
// is not the lock that decides who may be the daemon (PATH.lock): with a shared lock on that one,
// anybody could keep a daemon from starting. A daemon makes a new file of its own each time, so
// nobody can hold its lock first.
//
// Thread: any.
#pragma once

#include <string>

namespace mlxcomm::queue {

std::string PresenceFile(const std::string& socket_path);

bool IsPresent(const std::string& socket_path);

}  // namespace mlxcomm::queue

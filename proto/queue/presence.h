// Whether a daemon is at a socket, though the system refuses connections to it: macOS does so
// when the backlog is full, as it does where nobody listens.
//
// From before it binds until its socket is gone, or its process, a daemon holds a lock on
// PATH.running, which all who may connect may look at, and which has its process's number in it. It
// is not the lock that decides who may be the daemon (PATH.lock): with a shared lock on that one
// anybody could keep a daemon from starting. A daemon makes its own new file each time, so nobody
// can hold that before it does.
//
// Owner: functions. Thread: any. Memory: none.
#pragma once

#include <string>

namespace mlxcomm::queue {

std::string PresenceFile(const std::string& socket_path);

bool IsPresent(const std::string& socket_path);

}  // namespace mlxcomm::queue

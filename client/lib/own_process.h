// Returns this process's id without a system call every time: every operation asks twice, to detect
// a forked child, and glibc's getpid() is a system call.
//
//   first call ─▶ getpid() ─▶ kept in a page of its own ─▶ read by all that follow
//                               ^
//      fork(), clone() ─────────'  Linux gives every child an empty page there
//
// If a page cannot be kept in this way, getpid() is called each time; on macOS the system's library
// keeps the number. A child that shares its parent's memory (vfork, posix_spawn) counts as the
// parent until it has exec'd, and may do nothing else.
//
// Owner: the process. Thread: any. Memory: one page, made when the library is loaded.
#pragma once

namespace mlxcomm::client {

int OwnProcess();

}  // namespace mlxcomm::client

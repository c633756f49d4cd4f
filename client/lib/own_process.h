// Which process this is, without asking the system each time: every operation asks twice, to
// see that it is not in a forked child, and glibc's getpid() is a system call.
//
//   first call ─▶ getpid() ─▶ kept in a page of its own ─▶ read by all that follow
//                               ^
//      fork(), clone() ─────────'  Linux gives the child that page empty, whoever made the child
//
// Where a page cannot be kept so, getpid() is called each time; on macOS its library keeps the
// number. A child that shares its parent's memory (vfork, posix_spawn) is taken for the parent
// until it has exec'd, and may do nothing else.
//
// Owner: the process. Thread: any. Memory: one page, made when the library is loaded.
#pragma once

namespace mlxcomm::client {

// What getpid() gives.
int OwnProcess();

}  // namespace mlxcomm::client

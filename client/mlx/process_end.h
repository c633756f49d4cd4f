// The end of a program that is not Python's (which has groups.py): exit(), or the return from main.
//
//   exit() ─▶ what was begun ends, for other ranks still need it: for as long as some of it does so
//             within MLXCOMM_END_TIMEOUT seconds (60); Ctrl-C ends the wait
//          ─▶ jobs are left in order ─▶ groups refuse, and nothing is touched any more (group_use.h)
//   exit() for a fault ─▶ the others are told at once, and by which
//
// MLX's own objects and the user's may be destroyed before that or after it, and hold groups: so handles
// are closed here, whoever still has them, if no call on a group is under way. Else the daemon sees the
// process end.
//
// Owner: the process. Thread: that of exit(). Memory: none.
#pragma once

namespace mlxcomm::graph {

// Leaves the process's jobs (process_groups.h) at its end; again: nothing more. `why` is asked then: the
// fault by which the program ends, or null.
void LeaveJobsAtEnd(const char* (*why)());

}  // namespace mlxcomm::graph

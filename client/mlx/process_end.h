// The end of a program that is not Python's (for which groups.py does it): exit(), or the return
// from main.
//
//   exit() ─▶ operations that were begun end, because other ranks still need them: it waits as
//             long as one ends within MLXCOMM_END_TIMEOUT seconds (60); Ctrl-C ends the wait
//          ─▶ jobs are left in an orderly way ─▶ groups refuse, nothing is touched (group_use.h)
//   exit() because of a fault ─▶ the other ranks get the fault at once
//
// MLX's own objects and the user's may be destroyed before that or after it, and hold groups: so
// this closes all handles, whatever still holds them, if no call on a group is under way. Else the
// daemon sees the process end.
//
// Owner: the process. Thread: that of exit().
#pragma once

namespace mlxcomm::graph {

// Leaves the process's jobs (process_groups.h) at its end; a second call does nothing more. `why`
// is called then: it returns the fault by which the program ends, or null.
void LeaveJobsAtEnd(const char* (*why)());

}  // namespace mlxcomm::graph

// A call on a group, from its beginning to its end; and the end of all calls, when the process has
// left its jobs: from then on no call begins, and objects that still hold a group or a connection
// release nothing.
//
//   GroupUse ─┐
//   GroupUse ─┴─▶ 2 under way ─▶ ... ─▶ none ─▶ CloseGroups(): true, and none begins any more
//
// Owner: the process. Thread: any; one atomic number, so that a forked child finds no lock that is held.
// Memory: that number.
#pragma once

namespace mlxcomm::graph {

class GroupUse {
 public:
  // Throws OperationError (CANCELLED) once groups are closed.
  GroupUse();
  ~GroupUse();
  GroupUse(const GroupUse&) = delete;
  GroupUse& operator=(const GroupUse&) = delete;
};

// False, and nothing has changed, while a call is under way.
bool CloseGroups();

// From here on handles are neither closed nor used: the system releases everything.
void NoteProcessHasEnded();
bool ProcessHasEnded();

}  // namespace mlxcomm::graph

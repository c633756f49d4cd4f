// A call on a group, from its beginning to its end; and the end of all of them, when the process has left
// its jobs: from then on no call begins, and what still holds a group or a connection lets go of nothing.
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

// Handles are neither closed nor used from here on: the system takes all of it.
void NoteProcessHasEnded();
bool ProcessHasEnded();

}  // namespace mlxcomm::graph

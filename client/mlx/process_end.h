// The end of a program, and what has to be known for it: which calls on groups are under way, and
// which operations have begun and not ended.
//
//   end ─▶ operations that were begun end, because other ranks still need them (mlx-lm's generate
//          always leaves one): AwaitQueued
//       ─▶ jobs are left in an orderly way ─▶ groups refuse, nothing is touched any more
//   end because of a fault ─▶ the other ranks get the fault at once
//
// exit() does this for programs of mlx-c (process_groups.h). Python ends its programs while their
// threads still run (mlxcomm/groups.py): it waits here, and a group is left with the last object
// that holds it. A thread that asks for Python's lock from then on is ended below MLX's frames, which
// aborts the process: so no thread learns of an operation that ends after KeepLaterEnds.
//
// Owner: the process; never destroyed, because MLX's threads outlive much. Thread: any; uses are one
// atomic number, so that a forked child finds no lock that is held. Memory: numbers.
#pragma once

namespace mlxcomm::graph {

// A call on a group, from its beginning to its end.
//
//   GroupUse ─┐
//   GroupUse ─┴─▶ 2 under way ─▶ ... ─▶ none ─▶ CloseGroups(): true, and none begins any more
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

// An operation that MLX has been given, until it has ended or was thrown away: on MLX's streams,
// waiting for earlier ones, for memory, or for other ranks.
class QueuedOperation {
 public:
  QueuedOperation();
  ~QueuedOperation();
  QueuedOperation(const QueuedOperation&) = delete;
  QueuedOperation& operator=(const QueuedOperation&) = delete;
};

// Waits for the operations that are queued now, as long as one ends within MLXCOMM_END_TIMEOUT
// seconds (60). Ctrl-C ends the wait. They end with an error if another rank dies or does not call
// them.
void AwaitQueued();

// A task of MLX's streams has one until its end, which waits for the process's from here on; kKeptMost
// at most, for a program whose exit handlers evaluate something.
void KeepLaterEnds();
class EndOfTask {
 public:
  EndOfTask() = default;
  ~EndOfTask();
  EndOfTask(const EndOfTask&) = delete;
  EndOfTask& operator=(const EndOfTask&) = delete;
};

}  // namespace mlxcomm::graph

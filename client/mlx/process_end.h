// Exits a process cleanly; tracks the calls on groups and the operations in progress.
//
//   exit ─▶ AwaitQueued: operations end, because other ranks may need them (mlx-lm leaves one)
//        ─▶ jobs are left ─▶ groups refuse further calls
//   exit because of an error ─▶ the other ranks get the error at once
//
// exit() does this for programs of mlx-c (process_groups.h). Python exits while its threads still
// run (mlxcomm/groups.py): it calls AwaitQueued, and a group is closed with its last owner. A
// thread that then takes the GIL aborts the process, so tasks that end after KeepLaterEnds do not
// return.
//
// Owner: the process; never destroyed, because MLX's threads live on. Thread: any. Uses are an
// atomic number, so that a forked child cannot find a locked mutex.
#pragma once

namespace mlxcomm::graph {

// A call on a group in progress.
class GroupUse {
 public:
  // Throws OperationError (CANCELLED) once groups are closed.
  GroupUse();
  ~GroupUse();
  GroupUse(const GroupUse&) = delete;
  GroupUse& operator=(const GroupUse&) = delete;
};

// Refuses further calls. Returns false, and does nothing, while a call is in progress.
bool CloseGroups();

// From now on handles are neither closed nor used: the system releases everything.
void NoteProcessHasEnded();
bool ProcessHasEnded();

// An operation that MLX has, until it ends or is dropped.
class QueuedOperation {
 public:
  QueuedOperation();
  ~QueuedOperation();
  QueuedOperation(const QueuedOperation&) = delete;
  QueuedOperation& operator=(const QueuedOperation&) = delete;
};

// Waits for the operations that are queued now, until none has ended for MLXCOMM_END_TIMEOUT
// seconds (60), or until Ctrl-C.
void AwaitQueued();

// After this call tasks of MLX's streams do not return (for at most kKeepTaskMax, because exit
// handlers may evaluate): the destructor of their EndOfTask waits for the process to end.
void KeepLaterEnds();
class EndOfTask {
 public:
  EndOfTask() = default;
  ~EndOfTask();
  EndOfTask(const EndOfTask&) = delete;
  EndOfTask& operator=(const EndOfTask&) = delete;
};

}  // namespace mlxcomm::graph

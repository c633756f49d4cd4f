// A descriptor that becomes readable when a process ends, whoever its parent is.
//
// The doorbell's end-of-file does not come while a forked child still holds a copy
// of it; this does.
//
//   Linux: the descriptor is the process's own (pidfd).
//   macOS: it is a pipe's reader. One thread waits in a kqueue for all processes, and rings
//   at the writer of one that has ended. The kqueue itself is nobody else's: not every reactor can
//   wait for one (it refuses FIONBIO), and who fails at it would take a living process for dead.
//
// Owner: the caller. Thread: any. Memory: on macOS two descriptors, given back with the object.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "daemon/platform/file_descriptor.h"

namespace mlxcomm::platform {

class ProcessExit {
 public:
  // Not valid with errno set: ESRCH where the process has gone already, else the system
  // cannot watch it.
  static ProcessExit Watch(pid_t pid);

  ProcessExit() = default;
  ProcessExit(ProcessExit&& other) noexcept;
  ProcessExit& operator=(ProcessExit&& other) noexcept;
  ~ProcessExit();

  bool valid() const { return descriptor_.valid(); }
  int descriptor() const { return descriptor_.get(); }

 private:
  pid_t pid_ = 0;
  std::uint64_t number_ = 0;  // Of what the system's half keeps; 0: nothing.
  FileDescriptor descriptor_;
};

// The system's half.
FileDescriptor StartWatchingExit(pid_t pid, std::uint64_t& number);
void StopWatchingExit(pid_t pid, std::uint64_t number);

}  // namespace mlxcomm::platform

// A descriptor that becomes readable when a process ends, whichever process its parent is.
//
// Linux: the descriptor is the process's own (pidfd).
// macOS: it is a pipe's reader. One thread waits in a kqueue for all processes, and writes to the
// pipe of one that has ended. No other code gets the kqueue: not every reactor can wait for one (it
// refuses FIONBIO), and code that fails at it would take a living process for dead.
//
// Owner: the caller. Thread: any. Memory: on macOS two descriptors, closed with the object.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

class ProcessExit {
 public:
  // Not valid with errno set: ESRCH where the process has already gone, else the system cannot
  // watch it.
  static ProcessExit Watch(pid_t pid);

  ProcessExit() = default;
  ProcessExit(ProcessExit&& other) noexcept;
  ProcessExit& operator=(ProcessExit&& other) noexcept;
  ~ProcessExit();

  bool valid() const { return descriptor_.valid(); }
  int descriptor() const { return descriptor_.get(); }

 private:
  pid_t pid_ = 0;
  std::uint64_t number_ = 0;  // The system-specific part's number for it; 0: none.
  FileDescriptor descriptor_;
};

FileDescriptor StartWatchingExit(pid_t pid, std::uint64_t& number);
void StopWatchingExit(pid_t pid, std::uint64_t number);

}  // namespace mlxcomm::platform

// A descriptor that becomes readable when a process exits, whichever process its parent is.
//
// Linux: the process's pidfd. macOS: the read end of a pipe; one thread waits in a kqueue for all
// processes and writes to the pipe of one that has exited. Some reactors cannot wait for a kqueue.
//
// Owner: the caller. Thread: any. Memory: on macOS two descriptors, closed with the object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

class ProcessExit {
 public:
  // On failure the result is not valid and errno is set; ESRCH: the process has already exited.
  static ProcessExit Watch(pid_t pid);

  ProcessExit() = default;
  ProcessExit(ProcessExit&& other) noexcept { *this = std::move(other); }
  ProcessExit& operator=(ProcessExit&& other) noexcept;
  ~ProcessExit();

  bool valid() const { return descriptor_.valid(); }
  int descriptor() const { return descriptor_.get(); }

 private:
  pid_t pid_ = 0;
  std::uint64_t number_ = 0;  // Used by posix/; 0: none.
  FileDescriptor descriptor_;
};

FileDescriptor StartWatchingExit(pid_t pid, std::uint64_t& number);
void StopWatchingExit(pid_t pid, std::uint64_t number);

}  // namespace mlxcomm::platform

// Starts another program, and describes how it ended.
//
// The child has the given input (or the null device), the given output (or this process's standard
// error), this process's standard error, and at most one more descriptor, as number 3; none of this
// process's other ones. No signal is blocked in it.
//
// The caller waits for the child. Thread: any.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mlxcomm::platform {

struct ChildDescriptors {
  int input = -1;   // -1: the null device.
  int output = -1;  // -1: the standard error.
  int third = -1;   // -1: none.
};

// UNAVAILABLE: with the system's reason.
absl::StatusOr<pid_t> StartProgram(const std::string& program,
                                   const std::vector<std::string>& arguments,
                                   const ChildDescriptors& descriptors);

enum class Reading : std::uint8_t { kAll, kTooMuch, kTimeOut };
// What a child writes until it closes its output: for no longer than until `end_ns` (MonotonicNow()), and no
// more than `bytes_max`.
Reading ReadOutput(int input, std::uint64_t end_ns, std::size_t bytes_max, std::string& text);

// Until the child has ended, or the time is over: then `status` stays as it is.
void AwaitEnd(pid_t pid, std::uint64_t end_ns, int& status);

// For a status of waitpid(2), for people: "by signal 11 (Segmentation fault)", "with exit code 2".
std::string HowEnded(int status);

}  // namespace mlxcomm::platform

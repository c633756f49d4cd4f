// Starts another program, and describes how it ended.
//
// The child has the given input (or the null device), the given output (or this process's standard
// error), this process's standard error, and at most one more descriptor, as number 3; none of this
// process's other ones. No signal is blocked in it.
//
// The caller waits for the child. Thread: any.
#pragma once

#include <sys/types.h>

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

// For a status of waitpid(2), for people: "by signal 11 (Segmentation fault)", "with exit code 2".
std::string HowEnded(int status);

}  // namespace mlxcomm::platform

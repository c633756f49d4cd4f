// Starts another program, and tells how it ended.
//
// The child has the given input (or the null device), the given output (or this process's standard
// error as one), this process's standard error, and at most one descriptor besides, as number 3; no
// other of this process's. No signal is blocked in it.
//
// Owner: functions; the caller waits for the child. Thread: any. Memory: none.
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

// Of a status of waitpid(2), for people: "by signal 11 (Segmentation fault)", "with exit code 2".
std::string HowEnded(int status);

}  // namespace mlxcomm::platform

// Starts another program, and reads what it says: no shell, a deadline, a bounded output.
//
// A program has the descriptors that it is given, none of this process's other ones, and no signal
// is blocked in it.
//
// Thread: any, several at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mlxcomm {

inline constexpr std::size_t kOutputBytesMax = 4 * 1024 * 1024;

struct ProgramStart {
  int input = -1;   // -1: the null device.
  int output = -1;  // -1: this process's standard error.
  int error = -1;   // The same.
  int third = -1;   // Number 3 there; -1: none.
  bool leads_group = false;
  std::vector<std::string> environment = {};  // Empty: this process's.
};
// `words` is the program, searched in PATH, and its arguments. NOT_FOUND: there is no such program.
// UNAVAILABLE: the system's reason. The caller waits for its end.
absl::StatusOr<pid_t> StartProgram(std::vector<std::string> words, ProgramStart start);

// For `patience` at most. False: it has not ended. `status`: of waitpid(2); -1: not to be known.
bool AwaitProgram(pid_t program, std::chrono::nanoseconds patience, int& status);
// For a status of waitpid(2): 128 + signal where a signal ended it, as shells have it.
int ExitCodeOf(int status);
// For people: "by signal 11 (Segmentation fault)", "with exit code 2".
std::string HowEnded(int exit_code);

struct ProgramOutput {
  int exit_code = 0;  // ExitCodeOf.
  std::string text;   // Standard output, and standard error if asked for.
  pid_t undead = 0;   // It could not even be killed.
};

struct ProgramOptions {
  std::uint64_t timeout_ns = 10'000'000'000;
  bool with_errors = false;
  bool own_errors = false;  // Its standard error is this process's; else nobody reads it.
  // Waits only for the program's end: processes that it leaves running may hold its output open,
  // such as an ssh that others are to share (ControlPersist).
  bool until_exit = false;
  // It is killed when it says more; 0: what is more than kOutputBytesMax is dropped.
  std::size_t killed_above = 0;
  // In addition to this process's.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Without input, in the language C so that its output can be parsed, as the leader of a process group
// that is killed with it. As StartProgram, and RESOURCE_EXHAUSTED: no pipe. DEADLINE_EXCEEDED: it was
// killed. OUT_OF_RANGE: likewise, it said too much. ABORTED: it could not even be killed, for example
// because a driver holds it; it is not waited for.
absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                         const ProgramOptions& options = {});
// The same, and `output` has what was said by then also where it was killed.
absl::Status RunProgram(const std::vector<std::string>& words, const ProgramOptions& options,
                        ProgramOutput& output);

}  // namespace mlxcomm

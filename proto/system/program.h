// Starts another program without a shell, and reads its output up to a deadline and a limit.
//
// The program gets no descriptors other than the given ones, and no blocked signals.
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
  int input = -1;   // -1 means the null device.
  int output = -1;  // -1 means this process's standard error.
  int error = -1;   // -1 means this process's standard error.
  int third = -1;   // Descriptor 3 of the program; -1: none.
  bool leads_group = false;
  std::vector<std::string> environment = {};  // Empty means this process's.
};
// `words`: the program, searched in PATH, and its arguments. NOT_FOUND: no such program.
// UNAVAILABLE: the system's error. The caller must wait until the program exits.
absl::StatusOr<pid_t> StartProgram(std::vector<std::string> words, ProgramStart start);

// Waits up to `patience`. False if the program is still running. `status`: waitpid(2)'s; -1: not
// known.
bool AwaitProgram(pid_t program, std::chrono::nanoseconds patience, int& status);
// Converts waitpid(2)'s status to the exit code in shells: 128 + signal if a signal ended the
// program.
int ExitCodeOf(int status);
// Describes the end: "by signal 11 (Segmentation fault)", "with exit code 2".
std::string HowEnded(int exit_code);

struct ProgramOutput {
  int exit_code = 0;  // See ExitCodeOf.
  std::string text;   // Standard output, and standard error with with_errors.
  pid_t undead = 0;   // The program if it could not be killed.
};

struct ProgramOptions {
  std::uint64_t timeout_ns = 10'000'000'000;
  bool with_errors = false;
  bool own_errors = false;  // Its standard error is this process's; false: the null device.
  // Returns when the program exits, even if its children hold its output open, such as ssh's
  // ControlPersist.
  bool until_exit = false;
  // Kills the program if it writes more; 0: drops output beyond kOutputBytesMax.
  std::size_t killed_above = 0;
  // Added to this process's environment.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Runs a program without input, in the C locale, as the leader of a process group that is killed
// with it. Errors besides StartProgram's: RESOURCE_EXHAUSTED: no pipe. DEADLINE_EXCEEDED: it was
// killed at the deadline. OUT_OF_RANGE: it was killed for too much output. ABORTED: it could not be
// killed, for example because it hangs in a driver, and is left running.
absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                         const ProgramOptions& options = {});
// Same; `output` is also set if the program was killed.
absl::Status RunProgram(const std::vector<std::string>& words, const ProgramOptions& options,
                        ProgramOutput& output);

}  // namespace mlxcomm

// Runs a program and reads its output: no shell, no input, a deadline, a bounded output, in the
// language C so that it can be parsed.
//
// Thread: any, several at once. Memory: at most kOutputBytesMax of the output; more is read and
// dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mlxcomm::ctl {

inline constexpr std::size_t kOutputBytesMax = 4 * 1024 * 1024;

struct ProgramOutput {
  int exit_code = 0;  // 128 + signal where a signal ended it.
  std::string text;   // Standard output, and standard error if asked for.
};

// "ended with 3", "ended by signal 9".
std::string HowItEnded(const ProgramOutput& output);

struct ProgramOptions {
  std::uint64_t timeout_ns = 10'000'000'000;
  bool with_errors = false;
  // Waits only for the program's end: processes that it leaves running may hold its output open,
  // such as an ssh that others are to share (ControlPersist).
  bool until_exit = false;
  // In addition to this process's.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// `words` is the program, searched in PATH, and its arguments. NOT_FOUND: there is no such program.
// DEADLINE_EXCEEDED: it was killed. ABORTED: it could not even be killed, for example because a
// driver holds it; it is not waited for.
absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                         const ProgramOptions& options = {});

// The text of a file, at most `bytes_max` bytes; empty where it cannot be read.
std::string ReadFileText(const std::string& path, std::size_t bytes_max = 64 * 1024);
// Names in a folder, sorted; at most 4096.
std::vector<std::string> ListFolder(const std::string& path);

}  // namespace mlxcomm::ctl

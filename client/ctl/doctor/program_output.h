// Runs a program and reads what it says: no shell, no input, a deadline, a bounded output,
// in the language C so that it can be parsed.
//
// Owner: functions. Thread: any, several at once. Memory: at most kOutputBytesMax of the output; more is
// read and dropped.
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
  int exit_code = 0;  // 128 + signal where it was ended by one.
  std::string text;   // Standard output, and standard error where that was asked for.
};

// "ended with 3", "ended by signal 9".
std::string HowItEnded(const ProgramOutput& output);

struct ProgramOptions {
  std::uint64_t timeout_ns = 10'000'000'000;
  bool with_errors = false;
  // Its end is enough: what it leaves running may hold its output open, as an ssh does that others are to
  // share (ControlPersist).
  bool until_exit = false;
  std::vector<std::pair<std::string, std::string>> environment = {};  // Beside this process's.
};

// `words` is the program, looked for in PATH, and its arguments. NOT_FOUND: there is no such
// program; DEADLINE_EXCEEDED: it was ended. ABORTED: not even that could be done, as where a driver
// holds it; it is not waited for.
absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                         const ProgramOptions& options = {});

// The text of a file, at most `bytes_max` of it; empty where it cannot be read.
std::string ReadFileText(const std::string& path, std::size_t bytes_max = 64 * 1024);
// Names in a folder, sorted; at most 4096.
std::vector<std::string> ListFolder(const std::string& path);

}  // namespace mlxcomm::ctl

// Tests the assumptions about the operating system one by one. Each trial runs in its own process,
// and its caller sets a deadline (python -m mlxcomm firstlight).
//
//   mlxcommd --try-platform NAME     prints "holds", "fails" or "untried", and the details
//   mlxcommd --try-platform watch    prints a line for each interface that changes until its
//                                    standard output is closed: UNIX_NS, "up" or "down", NAME
//
// Trials leave nothing behind.
//
// Thread: main, of a process that does nothing else. Memory: some megabytes.
#pragma once

#include <string>

namespace mlxcomm::platform {

// The argument that selects a trial.
inline constexpr char kTrialArgument[] = "--try-platform";

// Prints the result; returns the exit code.
int RunTrial(const std::string& name);

}  // namespace mlxcomm::platform

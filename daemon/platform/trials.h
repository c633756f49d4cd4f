// What is assumed about the operating system, tried item by item on the running system: each trial
// is a process of its own, and its caller sets a deadline for it (python -m mlxcomm firstlight).
//
//   mlxcommd --try-platform NAME     "holds", "fails" or "untried", and then what was seen
//   mlxcommd --try-platform watch    reports interfaces that change, a line each, until its standard
//                                    output is closed: UNIX_NS, "up" or "down", NAME
//
// They leave nothing behind, and send nothing but a hello to a port that no program uses.
//
// Thread: main, of a process that does nothing else; some start another. Memory: some megabytes; much address
// space for a moment.
#pragma once

#include <string>

namespace mlxcomm::platform {

// The argument of mlxcommd that starts a trial.
inline constexpr char kTrialArgument[] = "--try-platform";

// For main: writes the result to the standard output; returns the exit code.
int RunTrial(const std::string& name);

}  // namespace mlxcomm::platform

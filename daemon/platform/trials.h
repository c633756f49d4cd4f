// What is taken of the operating system, tried one by one on the system that is there: each trial is
// a process of its own, and whoever starts it has a deadline for it (mlxcommctl firstlight).
//
//   mlxcommd --try-platform trials   which there are: NAME, and what is assumed
//   mlxcommd --try-platform NAME     "holds", "fails" or "untried", and then what was seen
//   mlxcommd --try-platform watch    tells of interfaces that change, a line each, until its standard
//                                    output is closed: UNIX_NS, "up" or "down", NAME
//
// Nothing is left behind, and nothing but a hello to no port that anybody has leaves this machine.
//
// Thread: main, of a process that does nothing else; some start another. Memory: some megabytes; much
// address space for a moment.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace mlxcomm::platform {

// The argument by which mlxcommd is told to try something.
inline constexpr char kTrialArgument[] = "--try-platform";

struct TrialResult {
  enum class Verdict : std::uint8_t { kHolds, kFails, kUntried };
  Verdict verdict = Verdict::kUntried;
  std::string seen;  // For people: figures, or why it was not tried.
};

struct Trial {
  const char* name;
  const char* assumed;  // For people.
  TrialResult (*run)();
};
std::span<const Trial> Trials();

// Of main: writes what came of it to the standard output; the exit code.
int RunTrial(const std::string& name);

}  // namespace mlxcomm::platform

// Turns the command that the user typed into the one that ranks run. Each host checks it before any
// rank starts.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "client/ctl/launch/rank_host.h"

namespace mlxcomm::ctl {

// Runs a Python script unless the user names another.
inline constexpr char kUsualPython[] = "python3";

// python, python3, python3.12, pypy3, in any folder.
bool IsPython(const std::string& program);

// The script after `python`, or a program that ends with .py; empty: none, as for -m and -c.
std::string ScriptOf(const std::vector<std::string>& command);

// Puts `python`, if given, before the command. Otherwise kUsualPython runs a script such as
// `train.py`, as with mlx.launch, unless the script is executable and named with its folder.
std::vector<std::string> WithPython(std::vector<std::string> command, const std::string& python,
                                    const std::string& directory);

// A short name for the job of such a command: "train" for `python -u src/train.py`, "sh" for `sh -c
// ...`.
std::string JobNameOf(const std::vector<std::string>& command);

// Why this host cannot run it, and what to type instead; empty: it can. Uses the ranks' PATH and
// directory.
std::string WhyNotRun(RankCommand command);

// A variable of the ranks' own environment; empty: not set.
std::string ValueOf(const RankCommand& command, std::string_view variable);

// The same, or the value that ranks inherit from this process.
std::string ValueForRanks(const RankCommand& command, const char* variable);

// Explains ranks that did not join: a Python that loads mlxcomm when it starts joins if the program
// asks for a group.
struct RankPython {
  bool loads_mlxcomm = false;
  std::string lacks;  // If it does not load mlxcomm, and the reason is known.
};
RankPython AskPython(const RankCommand& command, std::chrono::nanoseconds timeout);

// The command of a process; on macOS only its program.
std::vector<std::string> CommandOf(pid_t pid);

// Returns whether a process of the group has loaded MLX without mlxcomm, as a frozen program may.
bool HasLoadedMlxAlone(pid_t group);

}  // namespace mlxcomm::ctl

// The command of a job's ranks: what the user typed, made into what is run, and checked before any rank
// starts, on each host that gets some.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "client/ctl/launch/rank_host.h"

namespace mlxcomm::ctl {

// What runs a script of Python where nothing else is named.
inline constexpr char kUsualPython[] = "python3";

// python, python3, python3.12, pypy3, with any folder.
bool IsPython(const std::string& program);

// A script behind `python`; or the program itself where it ends with .py: empty otherwise, as for -m and -c.
std::string ScriptOf(const std::vector<std::string>& command);

// `train.py` runs with Python, as with mlx.launch: `python` if that is given, else kUsualPython. A
// script that may be executed and is named with its folder runs by itself. Every other command
// stays as it is.
std::vector<std::string> WithPython(std::vector<std::string> command, const std::string& python,
                                    const std::string& directory);

// A short name for the job of such a command: "train" for `python -u src/train.py`, "sh" for `sh -c ...`.
std::string JobNameOf(const std::vector<std::string>& command);

// Why this host cannot run it, in a sentence that says what to type; empty: it can. Looks for the program in
// the ranks' PATH and for the script in their directory.
std::string WhyNotRun(RankCommand command);

// The value of a variable of the ranks; empty: it is not set.
std::string ValueOf(const RankCommand& command, std::string_view variable);

// The same, or this process's value, which ranks inherit.
std::string ValueForRanks(const RankCommand& command, const char* variable);

// For ranks that did not join: whether their Python, with the options it is given, loads mlxcomm as it
// starts, so that a program that asks for a group joins one; else what it lacks, if that is known.
struct RankPython {
  bool loads_mlxcomm = false;
  std::string lacks;
};
RankPython AskPython(const RankCommand& command, std::chrono::nanoseconds timeout);

// The words of a process's command, as the system has them; on macOS its program alone.
std::vector<std::string> CommandOf(pid_t pid);

// Returns whether a process of the group has loaded MLX without mlxcomm, as a frozen program may.
bool HasLoadedMlxAlone(pid_t group);

}  // namespace mlxcomm::ctl

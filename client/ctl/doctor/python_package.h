// The Python package beside this program, or of the python3 in PATH, and what its self test says: whether
// results of MLX's operations lie in the daemon's memory (client/python/mlxcomm/check_results.py).
//
//   FindPythons ─▶ has it mlxcomm? ─▶ its self test, with a deadline ─▶ ReadSelfTest ─▶ facts
//
// No Python is run that lies in the current folder, and none takes modules from there: doctor is run
// anywhere, as root too.
//
// Owner: functions. Thread: main; half a second, at most the deadlines. Memory: plain values; of what
// others say a few lines, printable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/program_output.h"

namespace mlxcomm::ctl {

// The python3 in the folder of `own_path`, this program's, then those of the folders in `path` (PATH's
// value; may be null): each that can be run, once.
std::vector<std::string> FindPythons(const std::string& own_path, const char* path);

struct PythonOptions {
  std::vector<std::string> pythons;  // In the order in which they are asked.
  std::string socket_path;           // The daemon's; empty: as every client looks for it.
  std::uint64_t looking_timeout_ns = 20'000'000'000;
  std::uint64_t testing_timeout_ns = 60'000'000'000;  // The first time MLX is read from the disk.
};
// Of the first that has the package; of one that does not even answer `unknown` tells.
PythonFacts CollectPython(const PythonOptions& options, std::vector<std::string>& unknown);

// What the self test's output means. `program` stays empty.
PythonFacts ReadSelfTest(const ProgramOutput& output);

}  // namespace mlxcomm::ctl

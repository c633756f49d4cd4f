// Runs the self test (client/python/mlxcomm/check_results.py) of the Python package beside this
// program, or of the python3 in PATH: are results of MLX's operations in the daemon's memory?
//
//   FindPythons ─▶ has it mlxcomm? ─▶ its self test, with a deadline ─▶ ReadSelfTest ─▶ facts
//
// Neither a Python nor a module in the current folder is used, because doctor runs anywhere, even
// as root.
//
// Thread: main; takes half a second, at most the deadlines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {

// Each executable python3, in the folder of `own_path` and then in those of `path` (PATH; may be
// null).
std::vector<std::string> FindPythons(const std::string& own_path, const char* path);

struct PythonOptions {
  std::vector<std::string> pythons;  // The first that has the package is tested.
  std::string socket_path;           // Empty means the default.
  std::uint64_t looking_timeout_ns = 20'000'000'000;
  std::uint64_t testing_timeout_ns = 60'000'000'000;  // The first run reads MLX from the disk.
};
// Adds a Python that does not answer to `unknown`.
PythonFacts CollectPython(const PythonOptions& options, std::vector<std::string>& unknown);

// Leaves `program` empty.
PythonFacts ReadSelfTest(const ProgramOutput& output);

}  // namespace mlxcomm::ctl

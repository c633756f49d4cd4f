// The Python package beside this program, or that of the python3 in PATH, and the outcome of its
// self test: whether results of MLX's operations lie in the daemon's memory
// (client/python/mlxcomm/check_results.py).
//
//   FindPythons ─▶ has it mlxcomm? ─▶ its self test, with a deadline ─▶ ReadSelfTest ─▶ facts
//
// It runs no Python that lies in the current folder, and lets none import modules from there,
// because doctor runs anywhere, also as root.
//
// Thread: main; half a second, at most the deadlines. Memory: plain values; a few printable lines
// of other programs' output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {

// The python3 in the folder of `own_path`, this program's, then those of the folders in `path`
// (PATH's value; may be null): each executable one, once.
std::vector<std::string> FindPythons(const std::string& own_path, const char* path);

struct PythonOptions {
  std::vector<std::string> pythons;  // In the order in which they are asked.
  std::string socket_path;           // The daemon's; empty: found as by every client.
  std::uint64_t looking_timeout_ns = 20'000'000'000;
  std::uint64_t testing_timeout_ns = 60'000'000'000;  // The first run reads MLX from the disk.
};
// From the first that has the package; a Python that does not even answer is listed in `unknown`.
PythonFacts CollectPython(const PythonOptions& options, std::vector<std::string>& unknown);

// The meaning of the self test's output. `program` stays empty.
PythonFacts ReadSelfTest(const ProgramOutput& output);

}  // namespace mlxcomm::ctl

// Gathers the facts of this machine: by files on Linux, by the system's programs on macOS.
// Each has a deadline; what does not answer is listed as unknown.
//
// Owner: none. Thread: main; some seconds on macOS, where system_profiler is slow. Memory:
// plain values.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/python_package.h"

namespace mlxcomm::ctl {

struct CollectOptions {
  std::string config_file;  // Empty: the service's, where there is one.
  std::string key_file;     // That the daemon uses; empty: the configuration's, else the default.
  PythonOptions python;     // Without Pythons none is asked for its package's self test.
};
SystemFacts CollectSystem(const CollectOptions& options);

KeyTrouble FindKeyTrouble(const std::string& path);
// Of what a program in `folder` loads, as otool tells it: what is not there, and what others than
// root may change, or replace in its folder. The system's own libraries are no files.
struct LibraryTrouble {
  std::vector<std::string> missing;
  std::vector<std::string> of_users;
};
LibraryTrouble FindLibraryTrouble(const std::vector<std::string>& libraries,
                                  const std::string& folder);
// Whose window this is, by TERM_PROGRAM; empty: not known.
std::string WindowProgram(const char* term_program);
// The key_file of a configuration; empty: none.
std::string KeyFileIn(const std::string& config);

}  // namespace mlxcomm::ctl

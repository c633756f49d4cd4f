// Gathers the facts of this machine: from files on Linux, from the system's programs on macOS. Each
// has a deadline; programs that do not answer are listed as unknown.
//
// Thread: main; some seconds on macOS, where system_profiler is slow.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/python_package.h"

namespace mlxcomm::ctl {

struct CollectOptions {
  std::string config_file;  // Empty: the service's, where there is one.
  std::string key_file;     // The daemon's; empty: the configuration's, else the default.
  PythonOptions python;     // Without Pythons, no self test is run.
};
SystemFacts CollectSystem(const CollectOptions& options);
KeyTrouble FindKeyTrouble(const std::string& path);
// The libraries that a program in `folder` loads (LibrariesIn): those that are missing, and those that
// users other than root may change, or replace in their folder.
struct LibraryTrouble {
  std::vector<std::string> missing;
  std::vector<std::string> of_users;
};
LibraryTrouble FindLibraryTrouble(const std::vector<std::string>& libraries,
                                  const std::string& folder);
// The program that owns this terminal window, by TERM_PROGRAM; empty: not known.
std::string WindowProgram(const char* term_program);

}  // namespace mlxcomm::ctl

// Gathers facts about this machine: from files on Linux, from system programs on macOS. Each
// program has a deadline; if it does not answer, its facts are unknown.
//
// Thread: main; takes some seconds on macOS, where system_profiler is slow.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/python_package.h"

namespace mlxcomm::ctl {

struct CollectOptions {
  std::string config_file;  // Empty means the service's, if there is one.
  std::string key_file;     // Empty means the configuration's, or the default.
  PythonOptions python;     // No Pythons: no self test.
};
SystemFacts CollectSystem(const CollectOptions& options);
struct LibraryTrouble {
  std::vector<std::string> missing;
  std::vector<std::string> of_users;  // Users other than root may change or replace them.
};
// Checks the libraries that a program in `folder` loads (LibrariesIn).
LibraryTrouble FindLibraryTrouble(const std::vector<std::string>& libraries,
                                  const std::string& folder);

}  // namespace mlxcomm::ctl

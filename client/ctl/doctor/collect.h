// Gathers the facts of this machine: by files on Linux, by the system's programs on macOS.
// Each has a deadline; what does not answer is listed as unknown.
//
// Owner: none. Thread: main; some seconds on macOS, where system_profiler is slow. Memory:
// plain values.
#pragma once

#include <string>

#include "client/ctl/doctor/facts.h"

namespace mlxcomm::ctl {

struct CollectOptions {
  std::string config_file;  // Empty: the service's, where there is one.
  std::string key_file;     // That the daemon uses; empty: the configuration's, else the default.
};
SystemFacts CollectSystem(const CollectOptions& options);

// What is wrong with a key file as far as everybody can see; empty: nothing.
std::string KeyTrouble(const std::string& path);
// The key_file of a configuration; empty: none.
std::string KeyFileIn(const std::string& config);

}  // namespace mlxcomm::ctl

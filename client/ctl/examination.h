// One examination of this machine and its cluster, for doctor and for bug reports.
//
// Owner: none. Thread: main; some seconds. Memory: plain values.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

// The worst first. `config_file` empty: the daemon's, else the service's.
std::vector<Finding> Examine(const std::string& socket_path, const std::string& config_file);

}  // namespace mlxcomm::ctl

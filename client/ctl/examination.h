// One examination of this machine and its cluster, for doctor and for bug reports.
//
// Owner: none. Thread: main; some seconds. Memory: plain values.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

struct ExaminationOptions {
  std::string own_path;     // Of mlxcommctl: the Python package is looked for beside it.
  std::string socket_path;  // Empty: as every client looks for the daemon.
  std::string config_file;  // Empty: the daemon's, else the service's.
};
// The worst first.
std::vector<Finding> Examine(const ExaminationOptions& options);

}  // namespace mlxcomm::ctl

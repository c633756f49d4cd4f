// A diagnosis of this machine and its cluster, for doctor, web and bug reports.
//
// Thread: any; takes some seconds.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

struct DiagnosisOptions {
  std::string own_path;     // The path of mlxcommctl, to find the Python package beside it.
  std::string socket_path;  // Empty means the default.
  std::string config_file;  // Empty means the daemon's, or the service's.
  std::uint64_t recent_ns = 600'000'000'000;  // Older one-off events are not reported.
  bool python = true;                         // Runs the Python package's self test, for a second.
};
std::vector<Finding> Diagnose(const DiagnosisOptions& options);

}  // namespace mlxcomm::ctl

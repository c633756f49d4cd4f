// One examination of this machine and its cluster, for doctor and for bug reports.
//
// Thread: main; some seconds, with ssh up to half a minute for each 32 hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/ssh_probe.h"

namespace mlxcomm::ctl {

// Which hosts are tried by ssh.
struct SshExamination {
  std::vector<std::string> hosts;
  bool of_cluster = false;  // The other nodes that the daemon knows, too.
  SshProbeOptions how;
};

struct ExaminationOptions {
  std::string own_path;     // Of mlxcommctl: the Python package is looked for beside it.
  std::string socket_path;  // Empty: as every client looks for the daemon.
  std::string config_file;  // Empty: the daemon's, else the service's.
  std::optional<SshExamination> ssh = {};
};
// The worst first.
std::vector<Finding> Examine(const ExaminationOptions& options);

}  // namespace mlxcomm::ctl

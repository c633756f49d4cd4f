// One diagnosis of this machine and its cluster, for doctor and for bug reports.
//
// Thread: any, beside calls to the daemon; takes some seconds, with ssh up to half a minute for
// each 32 hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/ssh_probe.h"

namespace mlxcomm::ctl {

struct SshTargets {
  std::vector<std::string> hosts;
  bool of_cluster = false;  // Also the other nodes that the daemon knows.
  SshProbeOptions how;
};

struct DiagnosisOptions {
  std::string own_path;     // mlxcommctl's: the Python package may be beside it.
  std::string socket_path;  // Empty: the daemon is found as by every client.
  std::string config_file;  // Empty: the daemon's, else the service's.
  std::optional<SshTargets> ssh = {};
  std::uint64_t recent_ns = 600'000'000'000;  // What was counted longer ago is over.
  bool python = true;  // Also each Python package's self test, which takes a second.
};
// The worst first.
std::vector<Finding> Diagnose(const DiagnosisOptions& options);

}  // namespace mlxcomm::ctl

// The hosts that `launch` is to start ranks on, and what it takes from a hostfile.
//
// Owner: functions. Thread: main. Memory: the hosts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/ctl/hosts/hostfile.h"
#include "client/ctl/launch/launch.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// --hosts, --hostfile, --nodes, or this machine. Nodes are those of the cluster that the
// daemon here knows; UNAVAILABLE: no daemon.
Failure ChooseHosts(const LaunchOptions& options, Hostfile& file);

// What ssh is given for the other nodes that the daemon has told of, lost ones as well; and those that have
// no name for it, printable. Other nodes choose their names.
struct NodeHosts {
  std::vector<std::string> hosts;
  std::vector<std::string> nameless;
};
NodeHosts HostsOfNodes(const v1::StatusReply& status);

// Of this machine; empty: it has none.
std::string OwnHostName();

// "NAME=VALUE"s, as `mlx.launch --env` takes them; "NAME": as it is in this process, as mpirun -x does.
// `bare`: what a name without a value is.
enum class BareName { kAsHere, kEmpty };
Failure ReadEnvironment(const std::string& place, const std::vector<std::string>& assignments,
                        BareName bare,
                        std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace mlxcomm::ctl

// The hosts on which `launch` starts ranks, and what it uses of a hostfile.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/ctl/hosts/hostfile.h"
#include "client/ctl/launch/launch.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// --hosts, --hostfile, --nodes, or this machine. Nodes are those of the cluster that this node's
// daemon knows; UNAVAILABLE: no daemon.
Failure ChooseHosts(const LaunchOptions& options, Hostfile& file);

// The arguments for ssh to the other nodes that the daemon knows, lost ones as well; and,
// printable, the nodes whose names cannot be used. Other nodes choose their names.
struct NodeHosts {
  std::vector<std::string> hosts;
  std::vector<std::string> nameless;
};
NodeHosts HostsOfNodes(const v1::StatusReply& status);

// As PlaceRanks, with --total: where neither -n nor a hostfile says how many ranks a host gets,
// they are spread evenly. INVALID_ARGUMENT: there are none, or too many, or not as many as --total.
Failure PlaceLaunch(const LaunchOptions& options, const Hostfile& file,
                    std::vector<PlacedRanks>& placement);

// One line, where the daemon that ranks on this host would use drains: it takes no new jobs. Empty:
// it does not, or there is none.
std::string WhyNoRanksHere(const v1::StatusReply& status);

// This machine's; empty: it has none.
std::string OwnHostName();

// "NAME=VALUE"s, as in `mlx.launch --env`; "NAME": its value in this process, as with mpirun -x.
// `bare`: what a name without a value means.
enum class BareName { kAsHere, kEmpty };
Failure ReadEnvironment(const std::string& place, const std::vector<std::string>& assignments,
                        BareName bare,
                        std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace mlxcomm::ctl

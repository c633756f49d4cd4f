// The hosts that `launch` is to start ranks on, and what it takes from a hostfile.
//
// Owner: functions. Thread: main. Memory: the hosts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/ctl/hostfile.h"
#include "client/ctl/verbs.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// --hosts, --hostfile, --nodes, or this machine. Nodes are those of the cluster that the
// daemon here knows; UNAVAILABLE: no daemon.
Failure ChooseHosts(const LaunchOptions& options, Hostfile& file);

// "NAME=VALUE"s, as `mlx.launch --env` takes them; "NAME": as it is in this process, as mpirun -x does.
// `bare`: what a name without a value is.
enum class BareName { kAsHere, kEmpty };
Failure ReadEnvironment(const std::string& place, const std::vector<std::string>& assignments,
                        BareName bare,
                        std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace mlxcomm::ctl

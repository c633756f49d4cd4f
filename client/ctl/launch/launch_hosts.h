// Chooses the hosts of `launch`, places its ranks, and reads the ranks' variables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/ctl/launch/hostfile.h"
#include "client/ctl/launch/launch.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// From --hosts, --hostfile, --nodes, or this machine. UNAVAILABLE: --nodes needs a daemon, and none
// answers.
Failure ChooseHosts(const LaunchOptions& options, Hostfile& file);

// PlaceRanks with --total, which spreads the ranks evenly unless -n or a hostfile gives their
// number. INVALID_ARGUMENT: no ranks, too many, or fewer than --total.
Failure PlaceLaunch(const LaunchOptions& options, const Hostfile& file,
                    std::vector<PlacedRanks>& placement);

// A line if this host's daemon is draining, otherwise empty.
std::string WhyNoRanksHere(const v1::StatusReply& status);

std::string OwnHostName();  // Empty: none.

// Defines how to read a NAME without a value: as in this process, like mpirun -x, or empty, like
// mlx.launch.
enum class BareName { kAsHere, kEmpty };
// Reads "NAME=VALUE" or "NAME".
Failure ReadEnvironment(const std::string& place, const std::vector<std::string>& assignments,
                        BareName bare,
                        std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace mlxcomm::ctl

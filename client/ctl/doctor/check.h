// Turns facts into findings. Pure functions, so a test of each finding only needs its facts.
#pragma once

#include <string>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

Findings Check(const Facts& facts);

void CheckDaemon(const Facts& facts, Findings& findings);
void CheckNetwork(const Facts& facts, Findings& findings);
void CheckCables(const Facts& facts, Findings& findings);
void CheckRdma(const Facts& facts, Findings& findings);
void CheckSystem(const Facts& facts, Findings& findings);
void CheckPython(const Facts& facts, Findings& findings);
void CheckDiscovery(const Facts& facts, Findings& findings);
void CheckLinks(const Facts& facts, Findings& findings);
void CheckNodes(const Facts& facts, Findings& findings);
void CheckSsh(const Facts& facts, Findings& findings);

// A node's part of the reports; empty if its daemon does not answer.
const v1::NodeCheckup& CheckupOf(const ClusterFacts& cluster, const std::string& node);
const v1::NodeCheckup& OwnCheckup(const ClusterFacts& cluster);
const v1::NodeStatus& OwnStatus(const ClusterFacts& cluster);
// How to allow mlxcommd on macOS to use the local network.
std::string LocalNetworkRemedy(const Facts& facts);
// Returns whether a rail of this node uses the interface, used it last, or is being dialed over it.
bool CarriesRail(const ClusterFacts& cluster, const std::string& interface);

}  // namespace mlxcomm::ctl

// From facts to findings: what is wrong, what was expected, and how to fix it. Pure functions, so
// each finding is tested by the facts that lead to it.
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

// The part of this node's daemon; empty where it does not answer.
const v1::NodeCheckup& OwnCheckup(const ClusterFacts& cluster);
const v1::NodeStatus& OwnStatus(const ClusterFacts& cluster);
// Why macOS may keep a program from the local network, and how to allow it: macOS goes by the
// program that owns the terminal window.
std::string LocalNetworkRemedy(const Facts& facts);
// A rail of this node lies on the interface, lay on it, or is being dialed over it.
bool CarriesRail(const ClusterFacts& cluster, const std::string& interface);

}  // namespace mlxcomm::ctl

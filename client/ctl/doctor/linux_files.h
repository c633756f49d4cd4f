// Facts from Linux's files: interfaces, bridges, Thunderbolt, RDMA, power.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"

namespace mlxcomm::ctl {

// `root` is a prefix of each path: empty for this machine, a folder for a captured one.
std::vector<InterfaceFacts> ReadLinuxInterfaces(const std::string& root);
std::vector<ThunderboltPort> ReadLinuxThunderbolt(const std::string& root);
std::vector<RdmaPort> ReadLinuxRdma(const std::string& root);
// Whether the machine sleeps when idle, by logind.conf.
std::optional<bool> ReadLinuxSleep(const std::string& root);
// Whether ufw or firewalld is on.
std::optional<bool> ReadLinuxFirewall(const std::string& root);

}  // namespace mlxcomm::ctl

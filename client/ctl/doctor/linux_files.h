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
std::optional<bool> ReadLinuxSleep(const std::string& root);     // When idle, by logind.conf.
std::optional<bool> ReadLinuxFirewall(const std::string& root);  // ufw or firewalld.

}  // namespace mlxcomm::ctl

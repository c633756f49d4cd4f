// What Linux says in files about itself: interfaces, bridges, Thunderbolt, RDMA, power.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"

namespace mlxcomm::ctl {

// `root` stands before each path: empty for this machine, a folder for a captured one.
std::vector<InterfaceFacts> ReadLinuxInterfaces(const std::string& root);
std::vector<ThunderboltPort> ReadLinuxThunderbolt(const std::string& root);
std::vector<RdmaPort> ReadLinuxRdma(const std::string& root);
// logind.conf: whether an idle machine is put to sleep.
std::optional<bool> ReadLinuxSleep(const std::string& root);
// ufw or firewalld.
std::optional<bool> ReadLinuxFirewall(const std::string& root);

}  // namespace mlxcomm::ctl

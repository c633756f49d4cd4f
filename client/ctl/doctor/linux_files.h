// Facts from Linux's files: interfaces, bridges, Thunderbolt, power.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"

namespace mlxcomm::ctl {

// `root` is a prefix of each path: empty for this machine, a folder for a captured one.
std::vector<InterfaceFacts> ReadLinuxInterfaces(const std::string& root);
std::vector<ThunderboltPort> ReadLinuxThunderbolt(const std::string& root);
std::optional<bool> ReadLinuxSleep(const std::string& root);     // When idle, by logind.conf.
std::optional<bool> ReadLinuxFirewall(const std::string& root);  // ufw or firewalld.

std::vector<std::string> ListFolder(const std::string& path);  // Sorted; empty: there is none.

}  // namespace mlxcomm::ctl

// Parsers of the output of macOS's programs. Unexpected text gives fewer facts, never wrong ones.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/ctl/doctor/facts.h"

namespace mlxcomm::ctl {

// `system_profiler SPThunderboltDataType -json`. INVALID_ARGUMENT: another form.
absl::StatusOr<std::vector<ThunderboltPort>> ParseThunderboltProfile(const std::string& json);
// `networksetup -listallhardwareports`: by device, the port's name ("en2" -> "Thunderbolt 1").
std::map<std::string, std::string> ParseHardwarePorts(absl::string_view text);
// `networksetup -listnetworkserviceorder`: by device; a device without a service is missing.
struct NetworkService {
  std::string name;
  bool enabled = true;
};
std::map<std::string, NetworkService> ParseNetworkServices(absl::string_view text);
// `ifconfig -a`, with the bridges' members marked.
std::vector<InterfaceFacts> ParseIfconfig(absl::string_view text);
// `pmset -g custom`: whether it sleeps when idle, on mains power if the output distinguishes that.
std::optional<bool> ParseSleepSettings(absl::string_view text);
// `socketfilterfw --getglobalstate --getblockall`.
struct FirewallState {
  std::optional<bool> on;
  std::optional<bool> blocks_all;
};
FirewallState ParseFirewallState(absl::string_view text);
std::optional<bool> ParseNetworkTime(absl::string_view text);  // `systemsetup -getusingnetworktime`

// "Up to 80 Gb/s" -> 80; 0: no rate.
double GigabitsIn(absl::string_view text);

}  // namespace mlxcomm::ctl

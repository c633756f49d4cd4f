#include "client/ctl/doctor/linux_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/ctl/doctor/macos_text.h"
#include "proto/system/small_file.h"

namespace mlxcomm::ctl {
namespace {

std::string LineOf(const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(ReadFileText(path, 4096)));
}

std::set<std::string> WithLinkLocal(const std::string& root) {
  std::set<std::string> names;
  for (const absl::string_view line :
       absl::StrSplit(ReadFileText(root + "/proc/net/if_inet6"), '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() >= 6 && words[3] == "20") names.insert(std::string(words[5]));
  }
  return names;
}

}  // namespace

std::vector<std::string> ListFolder(const std::string& path) {
  constexpr std::size_t kNamesMax = 4096;
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end;
       !error && at != end && names.size() < kNamesMax; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<InterfaceFacts> ReadLinuxInterfaces(const std::string& root) {
  const std::string folder = root + "/sys/class/net";
  const std::set<std::string> with_link_local = WithLinkLocal(root);
  std::vector<InterfaceFacts> all;
  for (const std::string& name : ListFolder(folder)) {
    const std::string path = folder + "/" + name;
    const std::string flags = LineOf(path + "/flags");
    if (flags.empty()) continue;  // Not an interface, such as bonding_masters.
    InterfaceFacts& found = all.emplace_back();
    found.name = name;
    std::uint32_t bits = 0;
    if (!absl::SimpleHexAtoi(flags, &bits)) bits = 0;
    found.up = (bits & 0x1) != 0;
    found.loopback = (bits & 0x8) != 0;
    found.running = found.up && LineOf(path + "/carrier") == "1";
    if (!absl::SimpleAtoi(LineOf(path + "/mtu"), &found.mtu)) found.mtu = 0;
    found.thunderbolt =
        absl::StrContains(ReadFileText(path + "/device/uevent", 4096), "DRIVER=thunderbolt-net");
    // An interface in a bond or VRF, unlike one in a bridge, remains usable.
    std::error_code error;
    const auto master = std::filesystem::read_symlink(path + "/master", error).filename().string();
    if (!master.empty() && std::filesystem::exists(folder + "/" + master + "/bridge", error)) {
      found.bridge = master;
    }
    if (found.thunderbolt) found.hardware = "Thunderbolt";
    found.has_link_local = with_link_local.contains(name);
  }
  return all;
}

std::vector<ThunderboltPort> ReadLinuxThunderbolt(const std::string& root) {
  const std::string folder = root + "/sys/bus/thunderbolt/devices";
  std::vector<ThunderboltPort> ports;
  for (const std::string& name : ListFolder(folder)) {
    // "0-1" is a device or another computer, "0-0" this machine's controller. Services ("0-1.0"),
    // retimers ("0-1:1.1") and domains are not devices.
    const std::string path = folder + "/" + name;
    const std::size_t dash = name.find('-');
    if (dash == std::string::npos || name.find_first_of(".:") != std::string::npos) continue;
    const std::string route = name.substr(dash + 1);
    if (route == "0") continue;
    ThunderboltPort& port = ports.emplace_back();
    port.receptacle = route;
    port.peer = LineOf(path + "/device_name");
    const std::string speed = LineOf(path + "/rx_speed");
    int lanes = 1;
    if (!absl::SimpleAtoi(LineOf(path + "/rx_lanes"), &lanes)) lanes = 1;
    port.gigabits_per_second = GigabitsIn(speed) * lanes;
    if (!speed.empty()) port.speed = absl::StrCat(lanes, " x ", speed);
    const std::string generation = LineOf(folder + "/" + name.substr(0, dash) + "-0/generation");
    if (!generation.empty())
      port.generation = absl::StrCat("Thunderbolt ", generation, " controller");
    // Only another computer has network services.
    if (!ReadFileText(path + "/vendor_name").empty() && LineOf(path + "/authorized").empty()) {
      port.peer_domain = LineOf(path + "/unique_id");
    }
    for (const std::string& service : ListFolder(path)) {
      const std::vector<std::string> nets = ListFolder(path + "/" + service + "/net");
      if (!nets.empty()) port.interface = nets.front();
    }
  }
  return ports;
}

std::optional<bool> ReadLinuxSleep(const std::string& root) {
  // If the target is masked, nothing can put the machine to sleep.
  std::error_code error;
  const std::filesystem::path masked =
      std::filesystem::read_symlink(root + "/etc/systemd/system/sleep.target", error);
  if (!error && masked == "/dev/null") return false;
  std::vector<std::string> files = {root + "/etc/systemd/logind.conf"};
  if (ReadFileText(files[0]).empty()) return std::nullopt;
  const std::string more = root + "/etc/systemd/logind.conf.d";
  for (const std::string& name : ListFolder(more)) {
    if (name.ends_with(".conf")) files.push_back(more + "/" + name);
  }
  bool sleeps = false;
  for (const std::string& file : files) {
    for (absl::string_view line : absl::StrSplit(ReadFileText(file), '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (!absl::ConsumePrefix(&line, "IdleAction=")) continue;
      sleeps = line == "suspend" || line == "hibernate" || line == "hybrid-sleep" ||
               line == "suspend-then-hibernate" || line == "sleep";
    }
  }
  return sleeps;
}

std::optional<bool> ReadLinuxFirewall(const std::string& root) {
  const std::string ufw = ReadFileText(root + "/etc/ufw/ufw.conf");
  for (absl::string_view line : absl::StrSplit(ufw, '\n')) {
    if (absl::StripAsciiWhitespace(line) == "ENABLED=yes") return true;
  }
  if (!ListFolder(root + "/run/firewalld").empty()) return true;
  if (!ufw.empty()) return false;
  return std::nullopt;
}

}  // namespace mlxcomm::ctl

#include "client/ctl/doctor/collect.h"

#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ctl/doctor/linux_files.h"
#include "client/ctl/doctor/macos_text.h"
#include "client/ctl/doctor/section.h"
#include "client/ctl/service/macos_programs.h"
#include "client/ctl/service/service_files.h"
#include "proto/key/key_file.h"
#include "proto/system/program.h"
#include "proto/system/small_file.h"

namespace mlxcomm::ctl {
namespace {

// Returns the program's output; if it fails, empty, with the reason in `facts`.
std::string Ask(const std::vector<std::string>& words, SystemFacts& facts) {
  const auto output = RunProgram(words, {.timeout_ns = 20'000'000'000});
  if (output.ok() && output->exit_code == 0) return output->text;
  facts.unknown.push_back(output.ok() ? absl::StrCat(words[0], " ended with ", output->exit_code)
                                      : std::string(output.status().message()));
  return {};
}

void AddNew(const std::string& one, std::vector<std::string>& all) {
  if (std::ranges::find(all, one) == all.end()) all.push_back(one);
}

void JoinPortsToInterfaces(SystemFacts& facts) {
  for (InterfaceFacts& found : facts.interfaces) {
    found.thunderbolt = found.thunderbolt || found.hardware.starts_with("Thunderbolt ");
    for (ThunderboltPort& port : facts.ports) {
      if (found.hardware == absl::StrCat("Thunderbolt ", port.receptacle)) {
        port.interface = found.name;
      }
    }
  }
}

[[maybe_unused]] void CollectLibraries(SystemFacts& facts) {
  if (::access(kServiceProgram, X_OK) != 0) return;
  constexpr std::size_t kLibrariesMax = 512;
  std::vector<std::string> files = {kServiceProgram};
  for (std::size_t i = 0; i < files.size() && files.size() < kLibrariesMax; ++i) {
    // The developer tools include otool: a machine that builds the program has them.
    const auto reported = RunProgram({"/usr/bin/otool", "-L", files[i]});
    if (!reported.ok() || reported->exit_code != 0) {
      facts.unknown.emplace_back(absl::StrCat("otool -L ", files[i], " failed"));
      return;
    }
    std::vector<std::string> loaded = LibrariesIn(reported->text);
    const std::string folder = files[i].substr(0, files[i].rfind('/'));
    for (std::string& library : loaded) library = WithLoaderPath(library, folder);
    const LibraryTrouble trouble = FindLibraryTrouble(loaded, folder);
    for (const std::string& one : trouble.missing) AddNew(one, facts.libraries_missing);
    for (const std::string& one : trouble.of_users) AddNew(one, facts.libraries_of_users);
    for (const std::string& one : loaded) {
      if (::access(one.c_str(), R_OK) == 0) AddNew(one, files);
    }
  }
}

[[maybe_unused]] void CollectMacos(SystemFacts& facts) {
  facts.kind = SystemKind::kMacos;
  facts.interfaces = ParseIfconfig(Ask({"/sbin/ifconfig", "-a"}, facts));
  const auto hardware =
      ParseHardwarePorts(Ask({"/usr/sbin/networksetup", "-listallhardwareports"}, facts));
  const auto services =
      ParseNetworkServices(Ask({"/usr/sbin/networksetup", "-listnetworkserviceorder"}, facts));
  for (InterfaceFacts& found : facts.interfaces) {
    const auto port = hardware.find(found.name);
    if (port != hardware.end()) found.hardware = port->second;
    const auto service = services.find(found.name);
    if (service == services.end()) continue;
    found.service = service->second.name;
    found.service_enabled = service->second.enabled;
  }
  const std::string profile =
      Ask({"/usr/sbin/system_profiler", "SPThunderboltDataType", "-json"}, facts);
  if (!profile.empty()) {
    auto ports = ParseThunderboltProfile(profile);
    if (ports.ok()) {
      facts.ports = *std::move(ports);
    } else {
      facts.unknown.emplace_back(ports.status().message());
    }
  }
  JoinPortsToInterfaces(facts);
  facts.sleeps = ParseSleepSettings(Ask({"/usr/bin/pmset", "-g", "custom"}, facts));
  const std::string firewall = "/usr/libexec/ApplicationFirewall/socketfilterfw";
  const FirewallState state = ParseFirewallState(absl::StrCat(
      Ask({firewall, "--getglobalstate"}, facts), "\n", Ask({firewall, "--getblockall"}, facts)));
  facts.firewall_on = state.on;
  facts.firewall_blocks_all = state.blocks_all;
  // It answers only administrators, but exits with 0 for others as well.
  if (const auto reported = RunProgram({"/usr/sbin/systemsetup", "-getusingnetworktime"});
      reported.ok()) {
    facts.clock_synchronised = ParseNetworkTime(reported->text);
  }
  CollectLibraries(facts);
}

[[maybe_unused]] void CollectLinux(SystemFacts& facts) {
  facts.kind = SystemKind::kLinux;
  facts.interfaces = ReadLinuxInterfaces("");
  facts.ports = ReadLinuxThunderbolt("");
  facts.sleeps = ReadLinuxSleep("");
  facts.firewall_on = ReadLinuxFirewall("");
#if defined(__linux__)
  timex clock{};
  const int state = ::adjtimex(&clock);
  if (state >= 0)
    facts.clock_synchronised = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
#endif
}

KeyTrouble FindKeyTrouble(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) return {};  // It may belong to another user.
    return {"it does not exist"};
  }
  if (!S_ISREG(status.st_mode)) return {"it is not a regular file"};
  if ((status.st_mode & 077) == 0) {
    if (status.st_uid != ::geteuid()) return {};
    const auto keys = ReadKeyFile(path);
    if (keys.ok()) return {};
    return {std::string(keys.status().message())};
  }
  return {absl::StrFormat("others can use it (mode %03o)", status.st_mode & 0777),
          /*others_can_use_it=*/true};
}

// Checks the default key file only if it exists: a node may have none.
void CollectKey(const CollectOptions& options, SystemFacts& facts) {
  facts.key_file = SettingIn(ReadFileText(facts.config_file), "key_file");
  if (facts.key_file.empty()) facts.key_file = options.key_file;
  if (facts.key_file.empty()) {
    const std::string usual = DefaultKeyFile();
    if (!usual.empty() && ::access(usual.c_str(), F_OK) == 0) facts.key_file = usual;
  }
  if (!facts.key_file.empty()) facts.key_trouble = FindKeyTrouble(facts.key_file);
}

void CollectConfiguration(const CollectOptions& options, SystemFacts& facts) {
  const bool service = ::access(kServiceConfig, F_OK) == 0;
  facts.config_file = !options.config_file.empty() ? options.config_file
                      : service                    ? kServiceConfig
                                                   : "";
  if (RunProgram({"mlxcommd", "--version"}).ok()) facts.daemon_program = "mlxcommd";
  for (const char* const unit :
       {DefinitionPath(ServiceManager::kSystemd), DefinitionPath(ServiceManager::kLaunchd),
        kPackagedUnits[0], kPackagedUnits[1]}) {
    facts.service_installed = facts.service_installed || ::access(unit, F_OK) == 0;
  }
  CollectKey(options, facts);
  if (facts.config_file.empty()) return;
  if (ReadFileText(facts.config_file).empty() && ::access(facts.config_file.c_str(), R_OK) != 0) {
    facts.config_trouble =
        absl::StrCat(facts.config_file, " cannot be read: ", std::strerror(errno));
    return;
  }
  // Without access to the key, the check would report a false error.
  const bool sees_key = facts.key_file.empty() || ::access(facts.key_file.c_str(), R_OK) == 0;
  if (facts.daemon_program.empty() || !sees_key) return;
  const auto trouble = FindConfigTrouble("mlxcommd", facts.config_file);
  if (!trouble.ok()) facts.unknown.emplace_back(trouble.status().message());
  if (trouble.ok()) facts.config_trouble = *trouble;
}

}  // namespace

LibraryTrouble FindLibraryTrouble(const std::vector<std::string>& libraries,
                                  const std::string& folder) {
  LibraryTrouble trouble;
  for (const std::string& named : libraries) {
    const std::string library = WithLoaderPath(named, folder);
    if (library.starts_with("@")) continue;  // @rpath: not resolved here.
    if (::access(library.c_str(), F_OK) != 0) {
      trouble.missing.push_back(library);
    } else if (OthersMayWrite(library) || OthersMayWrite(library.substr(0, library.rfind('/')))) {
      trouble.of_users.push_back(library);
    }
  }
  return trouble;
}

SystemFacts CollectSystem(const CollectOptions& options) {
  SystemFacts facts;
#if defined(__APPLE__)
  CollectMacos(facts);
#else
  CollectLinux(facts);
#endif
  for (const Section* const section : Sections()) section->collect(facts);
  CollectConfiguration(options, facts);
  facts.python = CollectPython(options.python, facts.unknown);
  return facts;
}

}  // namespace mlxcomm::ctl

// The service's files: paths and contents, made from systemd-launchd/ and the configuration.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/ctl/service/service_facts.h"

namespace mlxcomm::ctl {

inline constexpr char kServiceFolder[] = "/usr/local/bin";
inline constexpr char kServiceProgram[] = "/usr/local/bin/mlxcommd";
inline constexpr char kServiceControl[] = "/usr/local/bin/mlxcommctl";
inline constexpr char kServiceLibraries[] = "/usr/local/lib/mlxcomm";
inline constexpr char kServiceConfigFolder[] = "/etc/mlxcommd";
inline constexpr char kServiceConfig[] = "/etc/mlxcommd/mlxcommd.textproto";
inline constexpr char kServiceKey[] = "/etc/mlxcommd/key";
inline constexpr char kServiceState[] = "/var/lib/mlxcommd";
inline constexpr char kServiceLogs[] = "/var/log/mlxcommd";
inline constexpr char kLaunchdLog[] = "/var/log/mlxcommd.log";
// `restart` writes this for a unit of an administrator or a package.
inline constexpr char kTimeoutFolder[] = "/etc/systemd/system/mlxcommd.service.d";
inline constexpr char kTimeoutFile[] = "/etc/systemd/system/mlxcommd.service.d/timeout.conf";
inline constexpr char kSystemdUnit[] = "mlxcommd.service";
inline constexpr const char* kPackagedUnits[] = {"/usr/lib/systemd/system/mlxcommd.service",
                                                 "/lib/systemd/system/mlxcommd.service"};
inline constexpr char kLaunchdLabel[] = "com.mlxcomm.mlxcommd";
inline constexpr char kLaunchdService[] = "system/com.mlxcomm.mlxcommd";

// The unit or plist; the configuration of log rotation.
const char* DefinitionPath(ServiceManager manager);
const char* RotationPath(ServiceManager manager);
// `keeps_programs`: adds a line that makes uninstall keep the programs, which `install` found
// there.
std::string DefinitionText(ServiceManager manager, int ends_within_s, bool keeps_programs = false);
bool SaysKeepsPrograms(std::string_view definition);
std::string TimeoutText(int ends_within_s);
// Replaces the plist's ExitTimeOut, if it has one.
std::string WithExitTimeout(const std::string& plist, int ends_within_s);
std::string_view RotationText(ServiceManager manager);
// The first configuration, from mlxcommd's defaults. On macOS the daemon gets its own log file,
// because launchd keeps standard error open, so that it cannot be rotated.
std::string FirstConfig(ServiceManager manager, const std::string& defaults);

// Returns the last value of a setting, "" if it is not set. Setting names are unique. Works by
// lines, because reports must also remove keys from invalid configurations.
std::string SettingIn(std::string_view config, std::string_view name);
// Returns what `program --check-config` reports, "" if the configuration is valid. An error: it did
// not run.
absl::StatusOr<std::string> FindConfigTrouble(const std::string& program, const std::string& path);
// Returns whether users other than root may write to it; false if it does not exist.
bool OthersMayWrite(const std::string& path);
// Returns how long the system waits for the daemon to end: drain_timeout_ms plus 10 s.
int EndsWithinS(std::string_view config);

}  // namespace mlxcomm::ctl

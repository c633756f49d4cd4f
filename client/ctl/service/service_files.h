// The files of the service: where they lie, and what is in them. Their texts are those of
// systemd-launchd/, with what the configuration changes in them.
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
// What `restart` changes of a unit that is an administrator's or a package's.
inline constexpr char kTimeoutFolder[] = "/etc/systemd/system/mlxcommd.service.d";
inline constexpr char kTimeoutFile[] = "/etc/systemd/system/mlxcommd.service.d/timeout.conf";
inline constexpr char kSystemdUnit[] = "mlxcommd.service";
inline constexpr const char* kPackagedUnits[] = {"/usr/lib/systemd/system/mlxcommd.service",
                                                 "/lib/systemd/system/mlxcommd.service"};
inline constexpr char kLaunchdLabel[] = "com.mlxcomm.mlxcommd";
inline constexpr char kLaunchdService[] = "system/com.mlxcomm.mlxcommd";

// The unit, or the plist; what turns the daemon's log.
const char* DefinitionPath(ServiceManager manager);
const char* RotationPath(ServiceManager manager);
// `keeps_programs`: a line in it says that uninstall leaves them, for `install` found them there.
std::string DefinitionText(ServiceManager manager, int ends_within_s, bool keeps_programs = false);
bool SaysKeepsPrograms(std::string_view definition);
std::string TimeoutText(int ends_within_s);
// A plist with that time in it, if it names one.
std::string WithExitTimeout(const std::string& plist, int ends_within_s);
std::string_view RotationText(ServiceManager manager);
// The configuration of a machine that has none, from what mlxcommd prints. launchd keeps standard
// error open, so on macOS the daemon has a log file of its own, which can be rotated while it runs.
std::string FirstConfig(ServiceManager manager, const std::string& defaults);

// The last value of a setting in a configuration; empty: it is not set. `name` is unique in all of it. Read
// by lines, for what cannot be parsed has a key all the same, which a report must not show.
std::string SettingIn(std::string_view config, std::string_view name);
// What `program --check-config` says is wrong in a configuration; empty: nothing. An error: the program
// cannot be run.
absl::StatusOr<std::string> FindConfigTrouble(const std::string& program, const std::string& path);
// Returns whether users other than root may write to it; false if it does not exist.
bool OthersMayWrite(const std::string& path);
// How long the system waits for the daemon's end: as long as jobs may take, and a little more.
int EndsWithinS(std::string_view config);

}  // namespace mlxcomm::ctl

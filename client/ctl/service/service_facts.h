// Facts about this machine from which service_plan.h decides how to install, remove or restart the
// service.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

enum class ServiceManager : std::uint8_t { kSystemd, kLaunchd };

// A library's name in a macOS program, and the file that the name means.
struct LoadedLibrary {
  std::string named;  // "@rpath/libfmt.12.dylib"
  std::string file;   // Empty: missing.
};

struct ServiceFacts {
  ServiceManager manager = ServiceManager::kSystemd;
  bool only_files = false;  // Only write or remove files below `root`; run nothing.
  std::string root;         // Prefix of each path; "" for "/".
  bool is_superuser = false;
  bool has_manager = false;   // systemctl or launchctl exists.
  bool was_booted = false;    // The manager booted this system.
  bool is_packaged = false;   // A system package owns the unit.
  bool is_installed = false;  // `install` has written the unit or plist.
  std::string definition;     // Its text.
  bool is_loaded = false;     // launchd has loaded it.
  bool is_running = false;    // According to the manager.
  bool is_enabled = false;

  std::string program;          // mlxcommd; empty: not found.
  std::string program_version;  // "0.1.0"; empty: unknown.
  std::string default_config;   // The output of --print-config.
  std::string control;          // mlxcommctl, installed too; empty: not found.
  bool in_place = false;        // `program` is the installed one, so it is not copied.

  std::optional<std::string> config;  // The configuration's text; nullopt: no file.
  bool config_is_hidden = false;      // This user may not read it.
  std::string config_trouble;         // mlxcommd's error for it; empty: valid.

  std::string socket;
  bool socket_answers = false;
  // Jobs with a rank on this node; nullopt: unknown, see jobs_trouble.
  std::optional<int> jobs = 0;
  std::string jobs_trouble;
  // NodeStatus::start; 0: no answer.
  std::uint64_t start = 0;
  std::uint32_t restarts_asked = 0;  // Counts only those before this command.
  bool restart_stands = false;       // A restart is pending or was refused.

  std::vector<std::string> trouble_with_folders;  // "/usr/local/bin: Read-only file system"
  // The folders to write to, and their parents, that other users may write to.
  std::set<std::string> folders_of_others;
  std::set<std::string> there;                  // Those of RemovablePaths that exist.
  std::vector<std::string> trouble_with_loads;  // Failed commands: "otool -L ..."
  // macOS: for each copied program and library, the libraries that it loads, without the system's.
  std::map<std::string, std::vector<LoadedLibrary>> loads;
};

}  // namespace mlxcomm::ctl

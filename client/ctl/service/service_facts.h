// What is known of this machine before a service is installed, removed or started again. All that is
// decided (service_plan.h) follows from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

enum class ServiceManager : std::uint8_t { kSystemd, kLaunchd };

// A library as a program of macOS names it, and the file that it then loads.
struct LoadedLibrary {
  std::string named;  // "@rpath/libfmt.12.dylib"
  std::string file;   // Empty: it is not there.
};

struct ServiceFacts {
  ServiceManager manager = ServiceManager::kSystemd;
  bool only_files = false;  // Files are put or removed below `root`, and nothing is run.
  std::string root;         // Before each path; "": none, as also below the folder "/".
  bool is_superuser = false;
  bool has_manager = false;   // Its program is there: systemctl, launchctl.
  bool was_booted = false;    // By it.
  bool is_packaged = false;   // A package of the system has brought the unit, and owns it.
  bool is_installed = false;  // The unit or plist of `install` is there.
  std::string definition;     // The text of that.
  bool is_loaded = false;     // launchd knows it, whether it runs or not.
  bool is_running = false;    // As the manager says.
  bool is_enabled = false;

  std::string program;          // mlxcommd; empty: none was found.
  std::string program_version;  // "0.1.0"; empty: it does not say.
  std::string default_config;   // What it prints with --print-config.
  std::string control;          // mlxcommctl, which goes along; empty: none.
  bool in_place = false;        // `program` is the installed one: the files stay.

  std::optional<std::string> config;  // The configuration's text; none: there is no file.
  bool config_is_hidden = false;      // There is one, which this user may not read.
  std::string config_trouble;         // What mlxcommd says is wrong in it; empty: nothing.

  std::string socket;  // Of the service.
  bool socket_answers = false;
  // Of whatever answers there: jobs with a rank on this node; none: why they are not known.
  std::optional<int> jobs = 0;
  std::string jobs_trouble;
  // Of its program (NodeStatus::start); 0: nobody answers.
  std::uint64_t start = 0;
  std::uint32_t restarts_asked = 0;  // Of it, before this one.
  bool restart_stands = false;       // One waits for clients to end, or was refused.

  std::vector<std::string> trouble_with_folders;  // "/usr/local/bin: Read-only file system"
  // Of those and of what they lie in: others than root may write there.
  std::set<std::string> folders_of_others;
  std::set<std::string> there;                  // Which of the paths that are removed exist.
  std::vector<std::string> trouble_with_loads;  // What tells of them has failed: "otool -L ..."
  // macOS: of each program and library that is copied, what it loads beside the system's own.
  std::map<std::string, std::vector<LoadedLibrary>> loads;
};

}  // namespace mlxcomm::ctl

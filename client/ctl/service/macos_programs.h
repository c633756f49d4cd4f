// macOS's own programs: their paths, and parsers for the output of launchctl and otool.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

#if defined(__APPLE__)
inline constexpr bool kIsMacos = true;
#else
inline constexpr bool kIsMacos = false;
#endif

// Replaces the program of a command by its absolute path, so that root does not run a user's otool
// from PATH. On other systems the command is unchanged, so that tests can emulate a Mac.
std::vector<std::string> OfMacos(std::vector<std::string> words, bool is_macos = kIsMacos);

// Parses `launchctl print SERVICE`. A loaded service may be waiting for its restart.
bool RunsByLaunchd(std::string_view printed);
// Parses `launchctl print-disabled system`; older systems print true and false.
bool IsDisabledByLaunchd(std::string_view printed, std::string_view label);

// Parses `otool -L`: the names of libraries, including a library's own name, without those of the
// system.
std::vector<std::string> LibrariesIn(const std::string& otool_loads);
// Parses `otool -l`: the run paths.
std::vector<std::string> RunPathsIn(const std::string& otool_commands);
// Replaces @loader_path by `folder`.
std::string WithLoaderPath(const std::string& named, const std::string& folder);
// Returns the file that `named` means in a program or library in `folder`; "" if it is missing.
std::string FileNamed(const std::string& named, const std::string& folder,
                      const std::vector<std::string>& run_paths,
                      const std::function<bool(const std::string&)>& is_file);

}  // namespace mlxcomm::ctl

// macOS's own programs: where they lie, what launchctl says of a service, and what otool says that a
// program or library loads.
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

// A command with its program's own place: root runs no otool or codesign that a user has put into the PATH.
// Elsewhere than on macOS it is as it was, so that tests can answer for a Mac.
std::vector<std::string> OfMacos(std::vector<std::string> words, bool is_macos = kIsMacos);

// Of `launchctl print SERVICE`. A service that is loaded does not run while it waits to be started again.
bool RunsByLaunchd(std::string_view printed);
// Of `launchctl print-disabled system`. Older ones say true and false.
bool IsDisabledByLaunchd(std::string_view printed, std::string_view label);

// Of `otool -L`: the names of libraries, without the system's own (below /usr/lib and /System), which are
// always there. A library's own name is among them.
std::vector<std::string> LibrariesIn(const std::string& otool_loads);
// Of `otool -l`: where names that begin with @rpath are looked for.
std::vector<std::string> RunPathsIn(const std::string& otool_commands);
// In a file of `folder`.
std::string WithLoaderPath(const std::string& named, const std::string& folder);
// The file that `named` means in a file of `folder`; empty: it is not there.
std::string FileNamed(const std::string& named, const std::string& folder,
                      const std::vector<std::string>& run_paths,
                      const std::function<bool(const std::string&)>& is_file);

}  // namespace mlxcomm::ctl

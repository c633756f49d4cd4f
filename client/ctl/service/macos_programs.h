// macOS's own programs: where they lie, and what launchctl says of a service.
#pragma once

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

}  // namespace mlxcomm::ctl

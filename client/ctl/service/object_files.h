// What a program or library of macOS loads, as `otool` shows it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

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

// Where this program lies, and what was installed beside it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mlxcomm::ctl {

inline std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
// This program's own file, by the name that it was called by; links to it are followed.
std::string OwnPath(const std::string& called);
// A program beside it, or where a build folder has it (in `folder`); empty: not found.
std::string FindProgramBeside(const std::string& own_path, const std::string& name,
                              const std::string& folder);
// libmlxcomm_mpi, which connects MLX's own MPI backend to the daemon; empty: not found.
std::string FindMpiLibrary(const std::string& own_path);
// So that ranks also find what was installed with this program: `python` of its environment.
void AddOwnFolderToPath(const std::string& own_path);
// Sets MLX_MPI_LIBNAME, where that library exists and the user has not named another.
void AddMpiLibrary(const std::string& own_path,
                   std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace mlxcomm::ctl

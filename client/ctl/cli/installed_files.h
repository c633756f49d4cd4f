// The path of this program, and what was installed beside it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mlxcomm::ctl {

inline std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
// Resolves argv[0] to this program's file, through links.
std::string OwnPath(const std::string& called);
// A program beside this one, or in `folder` of a build folder; empty: not found.
std::string FindProgramBeside(const std::string& own_path, const std::string& name,
                              const std::string& folder);
// Ranks then find what was installed with this program, such as the environment's `python`.
void AddOwnFolderToPath(const std::string& own_path);
// Sets MLX_MPI_LIBNAME to libmlxcomm_mpi, which connects MLX's MPI backend to the daemon, if it is
// found and the user has not named another.
void AddMpiLibrary(const std::string& own_path,
                   std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace mlxcomm::ctl

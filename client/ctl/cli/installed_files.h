// Where this program lies, and what was installed beside it.
//
// Owner: functions. Thread: main. Memory: paths.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mlxcomm::ctl {

// This program's own file, from how it was called; links to it are followed.
std::string OwnPath(const std::string& called);
// A program beside it, or where a build folder has it (in `folder`); empty: there is none.
std::string FindProgramBeside(const std::string& own_path, const std::string& name,
                              const std::string& folder);
// libmlxcomm_mpi, by which MLX's own MPI backend goes through the daemon; empty: not there.
std::string FindMpiLibrary(const std::string& own_path);
// What was installed with this program is found by the ranks too: `python` of its environment.
void AddOwnFolderToPath(const std::string& own_path);
// MLX_MPI_LIBNAME, where there is that library and the user has not named another.
void AddMpiLibrary(const std::string& own_path,
                   std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace mlxcomm::ctl

#include "client/ctl/cli/installed_files.h"

#include <glob.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <sstream>

namespace mlxcomm::ctl {
namespace {

#if defined(__APPLE__)
constexpr char kMpiLibrary[] = "libmlxcomm_mpi.dylib";
#else
constexpr char kMpiLibrary[] = "libmlxcomm_mpi.so";
#endif

std::string Resolved(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) == nullptr ? std::string() : std::string(resolved);
}

// libmlxcomm_mpi in an installation, a build folder or a Python environment; empty: not found.
std::string FindMpiLibrary(const std::string& own_path) {
  const std::string here = FolderOf(own_path);
  for (const char* const between :
       {"/../lib/", "/../lib/*/", "/../mpi/", "/../lib/python3*/site-packages/mlxcomm/lib/",
        "/../lib/python3*/dist-packages/mlxcomm/lib/"}) {
    glob_t found{};
    std::string path;
    if (::glob((here + between + kMpiLibrary).c_str(), 0, nullptr, &found) == 0 &&
        found.gl_pathc > 0) {
      path = Resolved(found.gl_pathv[0]);
    }
    ::globfree(&found);
    if (!path.empty()) return path;
  }
  return {};
}

}  // namespace

std::string OwnPath(const std::string& called) {
  std::vector<std::string> candidates;
  if (called.find('/') != std::string::npos) {
    candidates.push_back(called);
  } else {
    std::istringstream path(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
    for (std::string entry; std::getline(path, entry, ':');)
      candidates.push_back(entry + "/" + called);
  }
  for (const std::string& candidate : candidates) {
    if (::access(candidate.c_str(), X_OK) != 0) continue;
    if (const std::string resolved = Resolved(candidate); !resolved.empty()) return resolved;
  }
  return called;
}

std::string FindProgramBeside(const std::string& own_path, const std::string& name,
                              const std::string& folder) {
  for (const std::string& between : {std::string("/"), "/../" + folder + "/"}) {
    const std::string candidate = FolderOf(own_path) + between + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

void AddOwnFolderToPath(const std::string& own_path) {
  const char* const path = std::getenv("PATH");
  const std::string before = path == nullptr ? "/usr/bin:/bin" : path;
  const std::string folder = FolderOf(own_path);
  if (folder.empty() || (":" + before + ":").find(":" + folder + ":") != std::string::npos) return;
  ::setenv("PATH", (folder + ":" + before).c_str(), 1);
}

void AddMpiLibrary(const std::string& own_path,
                   std::vector<std::pair<std::string, std::string>>& environment) {
  if (std::getenv("MLX_MPI_LIBNAME") != nullptr) return;
  const std::string library = FindMpiLibrary(own_path);
  if (!library.empty()) environment.emplace_back("MLX_MPI_LIBNAME", library);
}

}  // namespace mlxcomm::ctl

#include "client/ctl/service/object_files.h"

#include <sstream>
#include <string_view>
#include <utility>

namespace mlxcomm::ctl {
namespace {

// The text between a line's blanks and `behind`; empty: the line has no `behind`.
std::string Before(const std::string& line, const char* behind) {
  const std::size_t end = line.find(behind);
  const std::size_t begin = line.find_first_not_of(" \t");
  return end == std::string::npos || begin >= end ? std::string() : line.substr(begin, end - begin);
}

constexpr std::string_view kRunPath = "@rpath/";

}  // namespace

std::vector<std::string> LibrariesIn(const std::string& otool_loads) {
  std::vector<std::string> all;
  std::istringstream lines(otool_loads);
  for (std::string line; std::getline(lines, line);) {
    std::string name = Before(line, " (compatibility version");
    const bool is_system = name.starts_with("/usr/lib/") || name.starts_with("/System/");
    if (!name.empty() && !is_system) all.push_back(std::move(name));
  }
  return all;
}

std::vector<std::string> RunPathsIn(const std::string& otool_commands) {
  constexpr std::string_view kPath = "path ";
  std::vector<std::string> all;
  std::istringstream lines(otool_commands);
  for (std::string line; std::getline(lines, line);) {
    const std::string path = Before(line, " (offset");
    if (path.starts_with(kPath)) all.push_back(path.substr(kPath.size()));
  }
  return all;
}

std::string WithLoaderPath(const std::string& named, const std::string& folder) {
  constexpr std::string_view kLoader = "@loader_path";
  return named.starts_with(kLoader) ? folder + named.substr(kLoader.size()) : named;
}

std::string FileNamed(const std::string& named, const std::string& folder,
                      const std::vector<std::string>& run_paths,
                      const std::function<bool(const std::string&)>& is_file) {
  if (!named.starts_with(kRunPath)) {
    std::string path = WithLoaderPath(named, folder);
    return is_file(path) ? path : std::string();
  }
  std::vector<std::string> folders{folder};
  folders.insert(folders.end(), run_paths.begin(), run_paths.end());
  for (const std::string& one : folders) {
    std::string path = WithLoaderPath(one, folder) + "/" + named.substr(kRunPath.size());
    if (is_file(path)) return path;
  }
  return {};
}

}  // namespace mlxcomm::ctl

#include "client/ctl/service/macos_programs.h"

#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace mlxcomm::ctl {

std::vector<std::string> OfMacos(std::vector<std::string> words, bool is_macos) {
  if (!is_macos || words.empty()) return words;
  std::string& program = words[0];
  if (program == "launchctl") program = "/bin/launchctl";
  for (const char* const name : {"otool", "install_name_tool", "codesign", "uname"}) {
    if (program == name) program = absl::StrCat("/usr/bin/", name);
  }
  return words;
}

// The first state is the service's own; those of its endpoints and job follow.
bool RunsByLaunchd(std::string_view printed) {
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    const std::string text(absl::StripAsciiWhitespace(line));
    if (text.starts_with("state = ")) return text == "state = running";
  }
  return false;
}

bool IsDisabledByLaunchd(std::string_view printed, std::string_view label) {
  const std::string named = absl::StrCat("\"", std::string(label), "\" => ");
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    const std::string text(absl::StripAsciiWhitespace(line));
    if (!text.starts_with(named)) continue;
    const std::string value = text.substr(named.size());
    return value.starts_with("disabled") || value.starts_with("true");
  }
  return false;
}

namespace {

// Returns the text between a line's leading blanks and `behind`; "" if the line has no `behind`.
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

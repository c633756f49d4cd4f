#include "client/ctl/service/macos_programs.h"

#include <sstream>

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

// The service's own state comes first; below it are those of its endpoints and of its job.
bool RunsByLaunchd(std::string_view printed) {
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    const std::string said(absl::StripAsciiWhitespace(line));
    if (said.starts_with("state = ")) return said == "state = running";
  }
  return false;
}

bool IsDisabledByLaunchd(std::string_view printed, std::string_view label) {
  const std::string named = absl::StrCat("\"", std::string(label), "\" => ");
  std::istringstream lines{std::string(printed)};
  for (std::string line; std::getline(lines, line);) {
    const std::string said(absl::StripAsciiWhitespace(line));
    if (!said.starts_with(named)) continue;
    const std::string value = said.substr(named.size());
    return value.starts_with("disabled") || value.starts_with("true");
  }
  return false;
}

}  // namespace mlxcomm::ctl

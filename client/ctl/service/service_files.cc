#include "client/ctl/service/service_files.h"

#include <sys/stat.h>

#include <cctype>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/embedded.h"
#include "mlxcomm/v1/config.pb.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

bool IsWordByte(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_';
}

// Returns the line up to its comment.
std::string_view WithoutComment(std::string_view line) {
  char quote = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char byte = line[at];
    if (quote == 0 && byte == '#') return line.substr(0, at);
    if (quote == 0 && (byte == '"' || byte == '\'')) {
      quote = byte;
    } else if (byte == quote) {
      quote = 0;
    }
  }
  return line;
}

std::string Replaced(std::string_view text, const std::string& what, const std::string& by) {
  std::string whole(text);
  const std::size_t at = whole.find(what);
  if (at != std::string::npos) whole.replace(at, what.size(), by);
  return whole;
}

constexpr char kKeepsPrograms[] =
    "The programs were here before the service: uninstall keeps them.";

// Returns the value that follows a setting's name.
std::string ValueAt(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == ':')) ++at;
  if (at == text.size()) return {};
  if (text[at] == '"' || text[at] == '\'') {
    const std::size_t end = text.find(text[at], at + 1);
    return end == std::string_view::npos ? std::string()
                                         : std::string(text.substr(at + 1, end - at - 1));
  }
  std::size_t end = at;
  while (end < text.size() && IsWordByte(text[end])) ++end;
  return std::string(text.substr(at, end - at));
}

}  // namespace

const char* DefinitionPath(ServiceManager manager) {
  return manager == ServiceManager::kSystemd ? "/etc/systemd/system/mlxcommd.service"
                                             : "/Library/LaunchDaemons/com.mlxcomm.mlxcommd.plist";
}

const char* RotationPath(ServiceManager manager) {
  return manager == ServiceManager::kSystemd ? "/etc/logrotate.d/mlxcommd"
                                             : "/etc/newsyslog.d/mlxcommd.conf";
}

std::string DefinitionText(ServiceManager manager, int ends_within_s, bool keeps_programs) {
  if (manager == ServiceManager::kSystemd) {
    return Replaced(kServiceUnit, "\nTimeoutStopSec=15\n",
                    absl::StrCat("\nTimeoutStopSec=", ends_within_s, "\n")) +
           (keeps_programs ? absl::StrCat("# ", kKeepsPrograms, "\n") : "");
  }
  const std::string plist = WithExitTimeout(std::string(kServicePlist), ends_within_s);
  if (!keeps_programs) return plist;
  return Replaced(plist, "</plist>", absl::StrCat("<!-- ", kKeepsPrograms, " -->\n</plist>"));
}

bool SaysKeepsPrograms(std::string_view definition) {
  return definition.find(kKeepsPrograms) != std::string_view::npos;
}

std::string TimeoutText(int ends_within_s) {
  return absl::StrCat(
      "# Written by mlxcommctl service restart: the configuration's drain_timeout_ms plus 10 s.\n"
      "[Service]\nTimeoutStopSec=",
      ends_within_s, "\n");
}

std::string WithExitTimeout(const std::string& plist, int ends_within_s) {
  constexpr std::string_view kBegin = "<integer>";
  const std::size_t key = plist.find("<key>ExitTimeOut</key>");
  const std::size_t begin = key == std::string::npos ? key : plist.find(kBegin, key);
  const std::size_t end = begin == std::string::npos ? begin : plist.find("</integer>", begin);
  if (end == std::string::npos) return plist;
  return absl::StrCat(plist.substr(0, begin + kBegin.size()), ends_within_s, plist.substr(end));
}

std::string_view RotationText(ServiceManager manager) {
  return manager == ServiceManager::kSystemd ? kServiceLogrotate : kServiceNewsyslog;
}

std::string FirstConfig(ServiceManager manager, const std::string& defaults) {
  if (manager == ServiceManager::kSystemd) return defaults;
  const std::string file = "file: \"/var/log/mlxcommd/mlxcommd.log\"";
  return Replaced(defaults, "# " + file, file);
}

std::string SettingIn(std::string_view config, std::string_view name) {
  std::string found;
  std::istringstream lines{std::string(config)};
  for (std::string whole; std::getline(lines, whole);) {
    const std::string_view line = WithoutComment(whole);
    for (std::size_t at = line.find(name); at != std::string_view::npos;
         at = line.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      const bool is_word =
          (at == 0 || !IsWordByte(line[at - 1])) && (end == line.size() || !IsWordByte(line[end]));
      if (!is_word) continue;
      const std::string value = ValueAt(line.substr(end));
      if (!value.empty()) found = value;
    }
  }
  return found;
}

absl::StatusOr<std::string> FindConfigTrouble(const std::string& program, const std::string& path) {
  const auto checked =
      RunProgram({program, "--check-config", "--config", path}, {.with_errors = true});
  if (!checked.ok()) return checked.status();
  if (checked->exit_code == 0) return std::string();
  const std::string said(absl::StripAsciiWhitespace(checked->text));
  return said.empty() ? "ended " + HowEnded(checked->exit_code) : said;
}

bool OthersMayWrite(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return false;  // A missing one is reported elsewhere.
  return status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

int EndsWithinS(std::string_view config) {
  constexpr int kMoreS = 10;
  int drain_ms = 0;
  if (!absl::SimpleAtoi(SettingIn(config, "drain_timeout_ms"), &drain_ms) || drain_ms < 0) {
    drain_ms = static_cast<int>(v1::DaemonConfig().drain_timeout_ms());
  }
  return drain_ms / 1000 + (drain_ms % 1000 != 0 ? 1 : 0) + kMoreS;
}

}  // namespace mlxcomm::ctl

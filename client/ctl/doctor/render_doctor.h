// Findings as a person or a program reads them. Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

// Grouped by severity, the worst first; without those that are "ok" unless `all`.
std::string RenderFindings(std::span<const Finding> findings, bool all, bool colours);
// {"findings": [{"code", "severity", "title", "object", "found", "expected", "remedy",
//   "command", "safe"}], "errors", "warnings", "notes"}
std::string FindingsAsJson(std::span<const Finding> findings);
// As they would be typed, quoted where a shell needs it.
std::string CommandLine(const std::vector<std::string>& words);
// All of it, for one line.
std::string CommandLine(const Fix& fix);
// The table of the README.
std::string RenderCodes();

}  // namespace mlxcomm::ctl

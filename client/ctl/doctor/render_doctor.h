// Findings as text for people and for programs. Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

// Grouped by severity, the worst first; those that are "ok" only with `all`.
std::string RenderFindings(std::span<const Finding> findings, bool all, bool colours);
// {"findings": [{"code", "severity", "title", "object", "found", "expected", "remedy",
//   "command", "safe"}], "errors", "warnings", "notes"}
std::string FindingsAsJson(std::span<const Finding> findings);
// As one would type them, quoted where a shell needs it.
std::string CommandLine(const std::vector<std::string>& words);
// All its commands, in one line.
std::string CommandLine(const Fix& fix);
std::string RenderCodes();

}  // namespace mlxcomm::ctl

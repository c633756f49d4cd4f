// Findings as text and as JSON. Pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

// `all` includes findings of severity "ok".
std::string RenderFindings(std::span<const Finding> findings, bool all, bool colours);
std::string FindingsAsJson(std::span<const Finding> findings);  // v1::DoctorReport.
// Quotes words for a shell.
std::string CommandLine(const std::vector<std::string>& words);
std::string CommandLine(const Fix& fix);
std::string RenderCodes();

}  // namespace mlxcomm::ctl

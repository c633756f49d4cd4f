// A StatusReply as text. Pure functions.
#pragma once

#include <string>

#include "client/ctl/cli/terminal.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// The short form: a row for each node, link and job, with its faults. If the screen is too small,
// the busiest healthy links are shown and the others counted. One row is left for the prompt.
std::string RenderStatus(const v1::StatusReply& status, bool colours, TerminalSize screen);
// The long form: every detail of each node, rail and rank.
std::string RenderStatusDetails(const v1::StatusReply& status, bool colours);

}  // namespace mlxcomm::ctl

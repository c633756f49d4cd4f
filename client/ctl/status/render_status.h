// A StatusReply as text for people: pure functions, tested by their text.
#pragma once

#include <string>

#include "client/ctl/cli/terminal.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// The short form: a row for each node, link and job, and what is wrong. Links that are well tell
// less, or are only counted, where they would not fit the screen; one row is left for the prompt.
// Names that others chose are passed through Shown() (cli/text.h).
std::string RenderStatus(const v1::StatusReply& status, bool colours, TerminalSize screen);
// The long form: all that is known of each node, rail and rank.
std::string RenderStatusDetails(const v1::StatusReply& status, bool colours);

}  // namespace mlxcomm::ctl

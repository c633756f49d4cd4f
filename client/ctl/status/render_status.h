// A StatusReply as text for people: pure functions, tested by their text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// The short form: a row for each node, link and job, in tables of at most `columns` where names are
// not too long, and what is wrong. Names that others chose are passed through Shown().
std::string RenderStatus(const v1::StatusReply& status, bool colours, std::size_t columns);
// The long form: all that is known of each node, rail and rank.
std::string RenderStatusDetails(const v1::StatusReply& status, bool colours);

// The text without anything that a terminal would interpret as a command: control characters (also
// those of two bytes) become "?".
std::string Shown(const std::string& text);

std::string HumanBytes(double bytes);               // "1.5 MiB"
std::string HumanTime(std::uint64_t milliseconds);  // "3.2 s", "2 h 5 min"

}  // namespace mlxcomm::ctl

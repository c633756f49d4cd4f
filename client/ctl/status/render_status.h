// A StatusReply as text for people: a pure function, tested by its text.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Names that others chose are passed through Shown().
std::string RenderStatus(const v1::StatusReply& status, bool colours);

// The text without anything that a terminal would interpret as a command: control characters (also
// those of two bytes) become "?".
std::string Shown(const std::string& text);

std::string HumanBytes(double bytes);               // "1.5 MiB"
std::string HumanTime(std::uint64_t milliseconds);  // "3.2 s", "2 h 5 min"

}  // namespace mlxcomm::ctl

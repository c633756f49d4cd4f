// Renders pings: a line for each, and a summary. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

std::string RenderPing(std::uint32_t number, const v1::PingReply& reply);
// The summary, with the last round trip of each rail.
std::string RenderPings(std::span<const v1::PingReply> replies);
std::string PingsAsJson(std::span<const v1::PingReply> replies);

}  // namespace mlxcomm::ctl

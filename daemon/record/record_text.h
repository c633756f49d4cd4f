// What the flight recorder holds, in words: for the log and for FlightRecordReply.
//
// Owner: none, pure functions over copies. Thread: any. Memory: the texts.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/telemetry/operation_life.h"

namespace mlxcomm::telemetry {

// "all_reduce sum float32[8192]"; empty where nobody here has called it.
std::string DescribeCall(const telemetry::OperationLife& life);
// "early", "called", "matched", "moving", "done", "failed"
std::string StateOf(const telemetry::OperationLife& life);

// One line, at most kDescribedBytesMax long, with every moment as the time since the
// operation's first: for the log when a group has failed.
inline constexpr std::size_t kDescribedBytesMax = 2000;
std::string DescribeLives(std::span<const telemetry::OperationLife> lives,
                          std::span<const telemetry::TrackCopy> rails, std::uint64_t now_ns);

}  // namespace mlxcomm::telemetry

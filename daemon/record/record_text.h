// The flight recorder's contents as text, for the log and for FlightRecordReply.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/record/operation_life.h"

namespace mlxcomm::record {

// "all_reduce sum float32[8192]"; empty if no rank here has called it.
std::string DescribeCall(const record::OperationLife& life);
// "early", "called", "matched", "moving", "done", "failed"
std::string StateOf(const record::OperationLife& life);

// Describes the operations in one line of at most kDescribedBytesMax bytes, with times relative to
// each operation's first event, for the log of a failed group.
inline constexpr std::size_t kDescribedBytesMax = 2000;
std::string DescribeLives(std::span<const record::OperationLife> lives,
                          std::span<const record::TrackCopy> rails, std::uint64_t now_ns);

}  // namespace mlxcomm::record

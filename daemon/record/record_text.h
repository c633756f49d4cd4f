// What the flight recorder holds, in words: for the log and for FlightRecordReply.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/record/operation_life.h"

namespace mlxcomm::record {

// "all_reduce sum float32[8192]"; empty where nobody here has called it.
std::string DescribeCall(const record::OperationLife& life);
// "early", "called", "matched", "moving", "done", "failed"
std::string StateOf(const record::OperationLife& life);

// One line, at most kDescribedBytesMax long, with every moment as the time since the
// operation's first: for the log when a group has failed.
inline constexpr std::size_t kDescribedBytesMax = 2000;
std::string DescribeLives(std::span<const record::OperationLife> lives,
                          std::span<const record::TrackCopy> rails, std::uint64_t now_ns);

}  // namespace mlxcomm::record

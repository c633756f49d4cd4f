// Why the daemon ends a control connection: what no client library and no tool does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mlxcomm::guard {

enum class EndReason : std::uint8_t {
  kNone,
  kBroken,
  kPings,
  kSettings,
  kCalls,
  kResets,
  kOtherFrames,
  kLongHeaders,
  kUnread,
  kCount,
};
inline constexpr std::size_t kEndReasons = static_cast<std::size_t>(EndReason::kCount);

// By EndReason; [kNone] stays 0.
using EndCounts = std::array<std::uint64_t, kEndReasons>;

// The word of metrics and status.
constexpr const char* EndReasonWord(EndReason reason) {
  switch (reason) {
    case EndReason::kBroken: return "broken";
    case EndReason::kPings: return "pings";
    case EndReason::kSettings: return "settings";
    case EndReason::kCalls: return "calls";
    case EndReason::kResets: return "resets";
    case EndReason::kOtherFrames: return "other_frames";
    case EndReason::kLongHeaders: return "long_headers";
    case EndReason::kUnread: return "unread";
    default: return "none";
  }
}

}  // namespace mlxcomm::guard

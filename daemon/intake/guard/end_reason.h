// Why the daemon ends a control connection: the process does what no client library and no tool
// does.
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

// Indexed by EndReason; [kNone] stays 0.
using EndCounts = std::array<std::uint64_t, kEndReasons>;

struct EndReasonText {
  const char* word;  // Used in metrics and status.
  const char* sentence;
};
inline constexpr std::array<EndReasonText, kEndReasons> kEndReasonTexts = {{
    {"none", ""},
    {"broken", "it does not speak HTTP/2 as gRPC does"},
    {"pings", "it sends more PING frames than any client"},
    {"settings", "it sends more SETTINGS frames than any client"},
    {"calls", "it makes more calls at once than any client"},
    {"resets", "it cancels more calls than any client"},
    {"other_frames", "it sends many frames that no client sends"},
    {"long_headers", "the headers of a call are longer than 8 KiB"},
    {"unread", "it has not read its answers"},
}};

}  // namespace mlxcomm::guard

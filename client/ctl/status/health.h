// The one sentence on how a cluster is, and what to look at first.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

struct Health {
  bool good = true;
  std::string text;  // With names as nodes and jobs have them; see Shown.
};
Health HealthOf(const v1::StatusReply& status);

// What happened once and left no trace counts for so long; doctor's --recent says another time.
inline constexpr std::uint64_t kRecentMs = 600'000;

// Whether the node has refused to restart, no longer ago than that.
bool IsRefused(const v1::RestartStatus& restart, std::uint64_t recent_ms = kRecentMs);

// Others have then awaited a rank for long enough for it to be worth a look.
inline constexpr std::uint64_t kLongMs = 10'000;
// Which rank of the job is awaited for so long, and where to look; empty: none. One that takes part in the
// operation too only moves its data.
std::string LongAwaited(const v1::JobStatus& job);
// Which job looks like the other half of this one, which forms, and why; empty: none does, or only for a
// moment.
std::string OtherHalf(const v1::JobStatus& job);

// Returns whether a job failed; one that was cancelled, by its user or mlxcommctl kill, just ended.
bool HasFailed(const v1::EndedJob& job);
// "failed 12 s ago: RANK_LOST rank 1 (mac-b, pid 7)".
std::string HowItFailed(const v1::EndedJob& job);

// The node that answers; an empty one where the reply has none.
const v1::NodeStatus& OwnNode(const v1::StatusReply& status);

// What a node that drains waits for, and how long: "1 job, 3 s left".
std::string DrainText(const v1::DrainStatus& drain);
// What a node waits for before it restarts: "restarts as 0.2.0 once 2 clients have ended".
std::string RestartText(const v1::RestartStatus& restart);

// It goes through other nodes.
bool IsRouted(const v1::LinkStatus& link);

// Where a node looks for neighbours and can use no interface: those that only lack IPv6, ", " between them.
std::string InterfacesWithoutIpv6(const v1::NodeStatus& node);

// A link leads to that node, whose state is shown there.
bool IsLinked(const v1::NodeStatus& node, const std::string& id);

// Why a link is not up, by all that its node says of it: its own reason tells how it ended, and its
// connections tell what stands in their way now, which may be another machine or another key.
struct LinkCause {
  v1::LinkReason::Value reason = v1::LinkReason::none;
  std::string detail;  // For people.
};
LinkCause CauseOf(const v1::LinkStatus& link);

// What answers is of another cluster, or has another key.
bool IsOfAnotherKey(v1::LinkReason::Value reason);

}  // namespace mlxcomm::ctl

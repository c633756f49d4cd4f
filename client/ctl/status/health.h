// The health of a cluster in one sentence, with what to check first.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

struct Health {
  bool good = true;
  std::string text;  // Names in it are unchecked: use Shown.
};
Health HealthOf(const v1::StatusReply& status);

// One-off events are reported for this long, unless doctor's --recent says otherwise.
inline constexpr std::uint64_t kRecentMs = 600'000;

// Returns whether the node refused to restart within that time.
bool IsRefused(const v1::RestartStatus& restart, std::uint64_t recent_ms = kRecentMs);

// A rank that others have awaited for this long is reported.
inline constexpr std::uint64_t kLongMs = 10'000;
// The rank of the job that is awaited for this long, and what to check; empty: none. A rank in the
// same operation is not awaited, only its data.
std::string LongAwaited(const v1::JobStatus& job);
// The job that may be the other half of this one, which is forming, and why; empty: none.
std::string OtherHalf(const v1::JobStatus& job);

// False for a job that was cancelled, by its user or mlxcommctl kill.
bool HasFailed(const v1::EndedJob& job);
// "failed 12 s ago: RANK_LOST rank 1 (mac-b, pid 7)".
std::string HowItFailed(const v1::EndedJob& job);

// An empty one if the reply has none of this name.
const v1::NodeStatus& NodeNamed(const v1::StatusReply& status, const std::string& name);
// The node that answered.
const v1::NodeStatus& OwnNode(const v1::StatusReply& status);

// Describes what a draining node is waiting for: "1 job, 3 s left".
std::string DrainText(const v1::DrainStatus& drain);
// Describes what a node is waiting for before it restarts: "restarts as 0.2.0 once 2 clients have
// ended".
std::string RestartText(const v1::RestartStatus& restart);

// Returns whether the link goes through other nodes.
bool IsRouted(const v1::LinkStatus& link);

// If discovery can use no interface: the ones that only lack IPv6, separated by ", ".
std::string InterfacesWithoutIpv6(const v1::NodeStatus& node);

bool IsLinked(const v1::NodeStatus& node, const std::string& id);

// Why a link is not up. The link's own reason says how it ended; a rail may say what prevents it
// now, such as another machine or another key.
struct LinkCause {
  v1::LinkReason::Value reason = v1::LinkReason::none;
  std::string detail;
};
LinkCause CauseOf(const v1::LinkStatus& link);

// The peer has another cluster name or key.
bool IsOfAnotherKey(v1::LinkReason::Value reason);

}  // namespace mlxcomm::ctl

// A scenario that was written by hand, or made from a recording, instead of one made by a seed: two
// hosts or a few, the cables between them, and when those are pulled (tests/firstlight/replay).
//
//   grace_us 5000000        how long a daemon waits for its neighbour
//   cable tcp reported      or rdma; silent: no interface shows that it is pulled
//   cable tcp reported 1 2  between other hosts than the first two, 0 and 1
//   pull 0 0 1500000        the first cable: how long after the beginning, and for how long
//   small 0 0 1500000       the same: it carries only small packets
//   swallow 0 0 50000       the same: a proxy on it loses what comes
//
// The events of the first host's daemon are printed from the beginning on: "event AT_US KIND
// CABLE", without a cable for events of the link or the node.
//
// Owner: plain values. Thread: any. Memory: bounded by the limits of a script.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tests/sim/scenario.h"

namespace mlxcomm::sim {

// When a script's time begins: all hosts are linked by then.
inline constexpr std::uint64_t kScriptBegins = 5 * kSecond;

// INVALID_ARGUMENT names the line and what was expected.
absl::StatusOr<Scenario> ParseScript(const std::string& text);

}  // namespace mlxcomm::sim

// A node's own part of a status: pure functions of the node's state.
//
// Thread: the node's. Memory: the reply; at most kGroupsListedMax groups besides the jobs' own.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/cluster/discovery.h"
#include "daemon/collective/collectives.h"
#include "daemon/collective/membership.h"
#include "daemon/node/jobs.h"
#include "daemon/node/node_port.h"
#include "daemon/node/options.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::node {

struct OwnState {
  const NodeOptions& options;
  const collective::Collectives& collectives;
  const collective::Membership& membership;
  const Jobs& jobs;
  const NodePort& port;
  const std::optional<cluster::Discovery>& discovery;
  std::uint64_t started_ns = 0;
  std::uint64_t now_ns = 0;
};

inline constexpr std::size_t kGroupsListedMax = 64;

// 0 where `then_ns` is later.
std::uint64_t MsBetween(std::uint64_t then_ns, std::uint64_t now_ns);
void WriteNode(const OwnState& own, v1::NodeStatus& node);
void WriteJobs(const OwnState& own, v1::StatusReply& reply);
// Jobs of all nodes whose ranks are not complete yet.
void WriteForming(const OwnState& own, v1::StatusReply& reply);
void WriteLinks(const OwnState& own, v1::NodeStatus& node);

}  // namespace mlxcomm::node

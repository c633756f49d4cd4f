// The status calls that wait for the other nodes' own parts.
//
//   Begin ─▶ StatusQuery to each node ─▶ StatusAnswer, node lost, or too late ─▶ parts in order of arrival
//
// Owner: Node. Thread: the node's; time is an argument. Memory: at most kCallsMax calls, each with one part
// for each node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "daemon/cluster/peers.h"
#include "daemon/node/status_parts.h"

namespace mlxcomm::node {

class StatusCalls {
 public:
  static constexpr std::size_t kCallsMax = 256;
  static constexpr std::uint64_t kWaitNs = 300'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  explicit StatusCalls(cluster::Peers& peers) : peers_(peers) {}

  bool HasRoom() const { return calls_.size() < kCallsMax; }
  static void Refuse(StatusAnswer& answer);
  // `own`: as StatusParts::own, whose other nodes are `nodes`.
  void Begin(v1::StatusReply own, const std::vector<NodeId>& nodes, std::uint64_t now_ns,
             std::unique_ptr<StatusAnswer> answer);
  // An answer that no call waits for is ignored.
  void OnAnswer(const NodeId& node, v1::StatusAnswer answer);
  void OnNodeLost(const NodeId& node);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;
  // Every caller is answered that the daemon is stopping.
  void Clear() { calls_.clear(); }

 private:
  struct Call {
    std::unique_ptr<StatusAnswer> answer;
    std::shared_ptr<StatusParts> parts;
    std::vector<NodeId> awaited;
    std::uint64_t deadline_ns = 0;
  };
  using Calls = std::map<std::uint64_t, Call>;  // By query.
  Calls::iterator Finish(Calls::iterator call);

  cluster::Peers& peers_;
  Calls calls_;
  std::uint64_t next_query_ = 1;
};

}  // namespace mlxcomm::node

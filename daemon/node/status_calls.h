// The status calls of this node's callers and of other nodes. Calls that arrive within kRoundNs
// share one round:
//
//   Ask, OnQuery ─▶ next round ─▶ own part, written in slices ─▶ StatusAnswer to nodes that asked
//           └─▶ StatusQuery to each node ─▶ parts, node lost, or too late ─▶ callers
//
// A round begins after its last caller has asked, so no caller gets outdated facts.
//
// Owner: Node. Thread: the node's; time is an argument. Memory: at most kCallsMax + kCallsKept
// calls, of which each user has kCallsPerUser, and kQueriesMax of each node; a round has one part
// for each node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/node/own_status.h"
#include "daemon/node/status_parts.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm::node {

struct OwnPart {
  StatusViewers viewers;
  v1::StatusReply reply;
  std::vector<NodeId> others;      // Those that reply.nodes() names after this node.
  std::optional<JobsWriter> jobs;  // Set by the first slice.
};

struct StatusCaller {
  std::string user;  // The same as in JobId; empty if users share jobs.
  bool sees_all = false;
};

struct StatusRound {
  std::vector<std::pair<std::string, std::unique_ptr<StatusAnswer>>> callers;  // Keyed by user.
  std::vector<std::pair<NodeId, std::uint64_t>> queries;
  std::unique_ptr<OwnPart> part;
  // Once the part is complete.
  std::shared_ptr<StatusParts> parts;
  std::vector<NodeId> awaited;
  std::uint64_t deadline_ns = 0;
};

class StatusCalls {
 public:
  static constexpr std::size_t kCallsMax = 256;
  static constexpr std::size_t kCallsKept = 64;  // Reserved for those who see all.
  static constexpr std::size_t kCallsPerUser = 64;
  static constexpr std::size_t kQueriesMax = 16;
  static constexpr std::uint64_t kRoundNs = 50'000'000;
  static constexpr std::uint64_t kWaitNs = 300'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Writes the next slice; returns true once the part is complete.
  using Write = std::function<bool(OwnPart& part)>;
  using Send = std::function<void(const NodeId& node, const v1::PeerMessage& message)>;

  StatusCalls(Send send, Write write) : send_(std::move(send)), write_(std::move(write)) {}

  void Ask(const StatusCaller& caller, std::unique_ptr<StatusAnswer> answer, std::uint64_t now_ns);
  // A query beyond a node's limit is dropped: that node gets no answer in time.
  void OnQuery(const NodeId& node, const v1::StatusQuery& query, std::uint64_t now_ns);
  // An answer that no call waits for is ignored.
  void OnAnswer(const NodeId& node, v1::StatusAnswer answer);
  void OnNodeLost(const NodeId& node);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;
  // Every caller is answered that the daemon is stopping.
  void Clear();

 private:
  using Round = StatusRound;

  Failure RoomFor(const StatusCaller& caller) const;
  Round& Next(std::uint64_t now_ns);
  void AnswerQueries(const Round& round);
  void AskOthers(Round round, std::uint64_t now_ns);
  static void Finish(const Round& round);

  const Send send_;
  const Write write_;
  std::optional<Round> next_;
  std::uint64_t due_ns_ = 0;  // next_'s.
  std::optional<Round> written_;
  std::map<std::uint64_t, Round> asking_;  // Keyed by query.
  std::uint64_t next_query_ = 1;
};

}  // namespace mlxcomm::node

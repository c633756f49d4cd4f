#include "daemon/node/status_calls.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace mlxcomm::node {

void StatusCalls::Begin(v1::StatusReply own, const std::vector<NodeId>& nodes, std::uint64_t now_ns,
                        std::unique_ptr<StatusAnswer> answer) {
  if (!HasRoom()) return Refuse(*answer);
  const std::uint64_t query = next_query_++;
  Call& call = calls_[query];
  call.answer = std::move(answer);
  call.parts = std::make_shared<StatusParts>();
  call.parts->own = std::move(own);
  call.awaited = nodes;
  call.deadline_ns = now_ns + kWaitNs;
  v1::PeerMessage message;
  message.mutable_status_query()->set_query(query);
  for (const NodeId& node : nodes) peers_.SendToNode(node, message);
  if (nodes.empty()) Finish(calls_.find(query));
}

void StatusCalls::Refuse(StatusAnswer& answer) {
  answer.Fail(
      {FailureCode::kResourceExhausted, kNoRank,
       absl::StrCat("as many ask for a status as may at once (", kCallsMax, "): ask again")});
}

void StatusCalls::OnAnswer(const NodeId& node, v1::StatusAnswer answer) {
  const auto found = calls_.find(answer.query());
  if (found == calls_.end() || std::erase(found->second.awaited, node) == 0) return;
  found->second.parts->answers.emplace_back(node, std::move(answer));
  if (found->second.awaited.empty()) Finish(found);
}

void StatusCalls::OnNodeLost(const NodeId& node) {
  for (auto at = calls_.begin(); at != calls_.end();) {
    const bool last = std::erase(at->second.awaited, node) > 0 && at->second.awaited.empty();
    at = last ? Finish(at) : std::next(at);
  }
}

void StatusCalls::OnTime(std::uint64_t now_ns) {
  for (auto at = calls_.begin(); at != calls_.end();) {
    at = at->second.deadline_ns <= now_ns ? Finish(at) : std::next(at);
  }
}

std::uint64_t StatusCalls::NextDeadline() const {
  std::uint64_t next = kNever;
  for (const auto& [query, call] : calls_) next = std::min(next, call.deadline_ns);
  return next;
}

StatusCalls::Calls::iterator StatusCalls::Finish(Calls::iterator call) {
  const Call done = std::move(call->second);
  const auto next = calls_.erase(call);
  done.answer->Succeed(done.parts);
  return next;
}

}  // namespace mlxcomm::node

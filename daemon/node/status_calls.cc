#include "daemon/node/status_calls.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/wire/frame.h"

namespace mlxcomm::node {
namespace {

// Answers another node with this node's own ranks, not those that wait for a job to form.
v1::PeerMessage AnswerOf(const v1::StatusReply& part) {
  v1::PeerMessage message;
  v1::StatusAnswer& answer = *message.mutable_status_answer();
  *answer.mutable_node() = part.nodes(0);
  for (const v1::JobStatus& job : part.jobs()) {
    if (job.state() != "forming") *answer.add_jobs() = job;
  }
  *answer.mutable_ended_jobs() = part.ended_jobs();
  // A part that is too large to send would look like a node that does not answer.
  if (message.ByteSizeLong() > wire::kControlBytesMax) {
    for (v1::JobStatus& job : *answer.mutable_jobs()) {
      job.set_groups_left_out(job.groups_left_out() +
                              static_cast<std::uint32_t>(job.groups_size()));
      job.clear_groups();
    }
    answer.clear_ended_jobs();
  }
  return message;
}

}  // namespace

void StatusCalls::Ask(const StatusCaller& caller, std::unique_ptr<StatusAnswer> answer,
                      std::uint64_t now_ns) {
  if (const Failure full = RoomFor(caller); !full.ok()) return answer->Fail(full);
  Round& round = Next(now_ns);
  // Users without a name see each other's jobs.
  if (caller.sees_all || caller.user.empty()) round.part->viewers.all = true;
  round.part->viewers.users.insert(caller.user);
  round.callers.emplace_back(caller.user, std::move(answer));
}

void StatusCalls::OnQuery(const NodeId& node, const v1::StatusQuery& query, std::uint64_t now_ns) {
  Round& round = Next(now_ns);
  const auto asked =
      std::ranges::count(round.queries, node, &std::pair<NodeId, std::uint64_t>::first);
  if (static_cast<std::size_t>(asked) >= kQueriesMax) return;
  constexpr int kUsersMax = 64;
  const bool all = query.users().empty() || query.users_size() > kUsersMax;
  round.part->viewers.all = round.part->viewers.all || all;
  if (!all) round.part->viewers.users.insert(query.users().begin(), query.users().end());
  round.queries.emplace_back(node, query.query());
}

Failure StatusCalls::RoomFor(const StatusCaller& caller) const {
  std::size_t all = 0, of_user = 0;
  const auto count = [&](const Round& round) {
    all += round.callers.size();
    for (const auto& [user, answer] : round.callers) of_user += user == caller.user ? 1 : 0;
  };
  for (const std::optional<Round>* const round : {&next_, &written_}) {
    if (round->has_value()) count(**round);
  }
  for (const auto& [query, round] : asking_) count(round);
  const bool fits =
      caller.sees_all ? all < kCallsMax + kCallsKept : all < kCallsMax && of_user < kCallsPerUser;
  if (fits) return {};
  return {FailureCode::kResourceExhausted, kNoRank,
          absl::StrCat("too many status requests at once (limit ", kCallsPerUser, " for a user, ",
                       kCallsMax, " in all): try again")};
}

StatusCalls::Round& StatusCalls::Next(std::uint64_t now_ns) {
  if (!next_) {
    next_.emplace().part = std::make_unique<OwnPart>();
    due_ns_ = std::max(now_ns, due_ns_);
  }
  return *next_;
}

void StatusCalls::OnAnswer(const NodeId& node, v1::StatusAnswer answer) {
  const auto found = asking_.find(answer.query());
  if (found == asking_.end() || std::erase(found->second.awaited, node) == 0) return;
  found->second.parts->answers.emplace_back(node, std::move(answer));
  if (!found->second.awaited.empty()) return;
  Finish(found->second);
  asking_.erase(found);
}

void StatusCalls::OnNodeLost(const NodeId& node) {
  for (auto at = asking_.begin(); at != asking_.end();) {
    const bool last = std::erase(at->second.awaited, node) > 0 && at->second.awaited.empty();
    if (last) Finish(at->second);
    at = last ? asking_.erase(at) : std::next(at);
  }
}

void StatusCalls::OnTime(std::uint64_t now_ns) {
  if (next_ && !written_ && due_ns_ <= now_ns) {
    written_ = std::exchange(next_, std::nullopt);
    due_ns_ = now_ns + kRoundNs;
  }
  if (written_ && write_(*written_->part)) {
    Round round = *std::exchange(written_, std::nullopt);
    AnswerQueries(round);
    if (!round.callers.empty()) AskOthers(std::move(round), now_ns);
  }
  std::erase_if(asking_, [now_ns](const auto& entry) {
    const bool late = entry.second.deadline_ns <= now_ns;
    if (late) Finish(entry.second);
    return late;
  });
}

void StatusCalls::AnswerQueries(const Round& round) {
  if (round.queries.empty()) return;
  v1::PeerMessage message = AnswerOf(round.part->reply);
  for (const auto& [node, query] : round.queries) {
    message.mutable_status_answer()->set_query(query);
    send_(node, message);
  }
}

void StatusCalls::AskOthers(Round round, std::uint64_t now_ns) {
  v1::PeerMessage message;
  v1::StatusQuery& query = *message.mutable_status_query();
  query.set_query(next_query_++);
  const StatusViewers& viewers = round.part->viewers;
  if (!viewers.all) query.mutable_users()->Assign(viewers.users.begin(), viewers.users.end());
  round.parts = std::make_shared<StatusParts>();
  round.parts->own = std::move(round.part->reply);
  round.awaited = std::move(round.part->others);
  round.deadline_ns = now_ns + kWaitNs;
  for (const NodeId& node : round.awaited) send_(node, message);
  if (round.awaited.empty()) return Finish(round);
  asking_.emplace(query.query(), std::move(round));
}

std::uint64_t StatusCalls::NextDeadline() const {
  std::uint64_t next = written_ ? 0 : next_ ? due_ns_ : kNever;
  for (const auto& [query, round] : asking_) next = std::min(next, round.deadline_ns);
  return next;
}

void StatusCalls::Clear() {
  next_.reset();
  written_.reset();
  asking_.clear();
}

void StatusCalls::Finish(const Round& round) {
  for (const auto& [user, answer] : round.callers) answer->Succeed(round.parts);
}

}  // namespace mlxcomm::node

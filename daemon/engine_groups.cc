// The half of Engine that makes and unmakes groups: worlds, splits, what is left of a
// failed group, and leaving.
#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/cluster/group_id.h"
#include "daemon/cluster/link_costs.h"
#include "daemon/engine.h"
#include "proto/types/plain_text.h"
#include "proto/types/short_list.h"

namespace mlxcomm {
namespace {

constexpr std::uint64_t kTimeoutMsMax = 86'400'000;
constexpr std::size_t kWhyBytesMax = 120;  // Of why a program has ended, which it says itself.

// What nobody has measured is as the cost model has it.
collective::LinkCosts CostsOf(const v1::LinkCosts& told) {
  collective::LinkCosts costs;
  if (told.latency_ns() != 0) costs.latency_ns = told.latency_ns();
  if (told.bytes_per_second() != 0) costs.bytes_per_second = told.bytes_per_second();
  if (told.links_per_node() != 0) costs.links_per_node = told.links_per_node();
  return costs;
}

}  // namespace

void Engine::Detach(intake::SessionId session, const v1::DetachRequest& request,
                    std::unique_ptr<control::DetachAnswer> answer) {
  const std::string why = MakePrintable(Shortened(request.why(), kWhyBytesMax));
  Enter(std::move(answer), [this, session, why](std::unique_ptr<control::DetachAnswer> held) {
    rendezvous_.Leave(session);
    OnGroupsLeft(session, why.empty() ? membership_.LeaveAll(session, now_ns_)
                                      : membership_.OnSessionEnded(
                                            session, "its program ended by " + why, now_ns_));
    held->Succeed(v1::DetachReply());
  });
}

void Engine::Split(intake::SessionId session, const v1::SplitRequest& request,
                   std::unique_ptr<control::GroupAnswer> answer) {
  Enter(std::move(answer), [this, session, request](std::unique_ptr<control::GroupAnswer> held) {
    collective::SplitCall call;
    call.parent = request.parent();
    call.number = request.number();
    call.ranks.assign(request.ranks().begin(), request.ranks().end());
    call.name = request.name();
    call.group = cluster::SplitGroupId(call.parent, call.number, call.ranks);
    const Failure failure = membership_.Split(session, call, now_ns_);
    if (!failure.ok()) return held->Fail(failure);
    OnGroupMade(call.group);
    held->Succeed(ReplyOf(call.group, *membership_.RankOf(session, call.group)));
  });
}

// A split is made once, and joined by each rank.
void Engine::OnGroupMade(std::uint64_t group) {
  operation_recorder_.NameGroup(*collectives_.Find(group), membership_.OriginOf(group)->job);
  CountGroups();
}

void Engine::Release(intake::SessionId session, std::uint64_t group,
                     std::unique_ptr<control::ReleaseAnswer> answer) {
  Enter(std::move(answer), [this, session, group](std::unique_ptr<control::ReleaseAnswer> held) {
    const std::vector<std::uint64_t> left = membership_.Release(session, group, now_ns_);
    if (left.empty()) {
      return held->Fail({FailureCode::kInvalidArgument, kNoRank,
                         absl::StrCat("group ", group, " is not one of this process's groups")});
    }
    OnGroupsLeft(session, left);
    // The rank of the job is free again when its process is in none of its groups.
    if (!membership_.HasPlaces(session)) rendezvous_.Leave(session);
    held->Succeed(v1::ReleaseReply());
  });
}

// Of the local ones, the first that is gone.
std::uint32_t Engine::RankLeft(const collective::Group& group) {
  const std::vector<std::uint32_t>& ranks = group.layout().local_ranks();
  const auto gone = std::find_if(ranks.begin(), ranks.end(),
                                 [&group](std::uint32_t rank) { return group.RankIsGone(rank); });
  return gone == ranks.end() ? ranks.front() : *gone;
}

// `session` may have ended already.
void Engine::OnGroupsLeft(intake::SessionId session, const std::vector<std::uint64_t>& groups) {
  CarryOut();  // Others hear first that the rank is gone, then what that means for a shrink.
  const auto found = sessions_.find(session);
  for (const std::uint64_t group : groups) {
    if (found != sessions_.end() && found->second.shrinking.contains(group)) {
      shrink_.Withdraw(session, group);
      OnShrinkRefused(session, group,
                      {FailureCode::kCancelled, kNoRank, "this process has left the group"});
    }
    const collective::Group* const left = collectives_.Find(group);
    if (left != nullptr && !left->failed()) {
      forming_worlds_.OnLeft(group, RankLeft(*left));
    } else {
      forming_worlds_.Remove(group);
    }
    if (left != nullptr && left->failed()) shrink_.OnChanged(group);
  }
}

void Engine::RemoveGroupsLeft() {
  const std::vector<std::uint64_t> removed = membership_.RemoveLeft();
  for (const std::uint64_t group : removed) {
    shrink_.OnGroupRemoved(group);
    operation_recorder_.OnGroupRemoved(group);
  }
  if (removed.empty()) return;
  TellOfRemoved(removed);
  CountGroups();
}

v1::GroupReply Engine::ReplyOf(std::uint64_t group, std::uint32_t rank) {
  const collective::Group& found = *collectives_.Find(group);
  v1::GroupReply reply;
  reply.set_group(group);
  reply.set_rank(rank);
  reply.set_name(found.name());
  for (std::uint32_t i = 0; i < found.layout().rank_count(); ++i) {
    const collective::Member& member = found.layout().member(i);
    v1::Member& told = *reply.add_members();
    told.set_rank(i);
    told.set_node(member.node_name);
    told.set_pid(member.pid);
  }
  return reply;
}

void Engine::Cancel(intake::SessionId session, const v1::CancelRequest& request,
                    std::unique_ptr<control::CancelAnswer> answer) {
  Enter(std::move(answer), [this, session, group = request.group(), ticket = request.ticket()](
                               std::unique_ptr<control::CancelAnswer> held) {
    // What it gives up may still be in its queue, which holds at most so many.
    for (std::uint32_t i = 0; i < queue::kSubmissionSlots && intake_->Poll() > 0; ++i) CarryOut();
    if (membership_.RankOf(session, group) != nullptr) {
      collectives_.Find(group)->Cancel(session, ticket, now_ns_);
    }
    held->Succeed(v1::CancelReply());
  });
}

void Engine::Awaited(intake::SessionId session, const v1::AwaitedRequest& request,
                     std::unique_ptr<control::AwaitedAnswer> answer) {
  Ask(std::move(answer), [this, session, group = request.group(),
                          ticket = request.ticket()](std::unique_ptr<control::AwaitedAnswer> held) {
    v1::AwaitedReply reply;
    if (membership_.RankOf(session, group) != nullptr) {
      reply.set_text(collectives_.Find(group)->DescribeWait(session, ticket, now_ns_));
    }
    reply.set_ended(reply.text().empty());
    held->Succeed(reply);
  });
}

void Engine::Shrink(intake::SessionId session, std::uint64_t call, const v1::ShrinkRequest& request,
                    std::unique_ptr<control::GroupAnswer> answer) {
  Enter(std::move(answer),
        [this, session, call, request](std::unique_ptr<control::GroupAnswer> held) {
          BeginShrink(session, call, request, std::move(held));
        });
}

void Engine::BeginShrink(intake::SessionId session, std::uint64_t call,
                         const v1::ShrinkRequest& request,
                         std::unique_ptr<control::GroupAnswer> answer) {
  const auto found = sessions_.find(session);
  const std::uint32_t* const rank = membership_.RankOf(session, request.group());
  if (found == sessions_.end() || rank == nullptr) {
    return answer->Fail(
        {FailureCode::kInvalidArgument, kNoRank,
         absl::StrCat("group ", request.group(), " is not one of this process's groups")});
  }
  if (draining_) {
    return answer->Fail({FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"});
  }
  if (found->second.shrinking.contains(request.group())) {
    return answer->Fail({FailureCode::kAlreadyExists, static_cast<std::int32_t>(*rank),
                         "this process waits for the group to shrink already"});
  }
  found->second.shrinking[request.group()] = {call, std::move(answer)};
  const std::uint64_t timeout_ns = request.timeout_ms() != 0
                                       ? std::min(request.timeout_ms(), kTimeoutMsMax) * 1'000'000
                                       : options_.rendezvous_timeout_ns;
  shrink_.Ask(session, request.group(), *rank, timeout_ns, now_ns_);
}

void Engine::CancelShrink(intake::SessionId session, std::uint64_t call) {
  asio::post(io_, [this, session, call] {
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) return;
    for (const auto& [group, shrinking] : found->second.shrinking) {
      if (shrinking.call != call) continue;
      const std::uint64_t cancelled = group;
      shrink_.Withdraw(session, cancelled);
      return OnShrinkRefused(session, cancelled,
                             {FailureCode::kCancelled, kNoRank, "cancelled by the caller"});
    }
  });
}

void Engine::RefuseShrinking(const Failure& failure) {
  for (auto& [id, session] : sessions_) {
    while (!session.shrinking.empty()) {
      const std::uint64_t group = session.shrinking.begin()->first;
      shrink_.Withdraw(id, group);
      OnShrinkRefused(id, group, failure);
    }
  }
}

bool Engine::Look(std::uint64_t group, cluster::GroupView& view) {
  const collective::Group* const found = collectives_.Find(group);
  if (found == nullptr) return false;
  view.name = found->name();
  view.failed = found->failed();
  view.ranks.clear();
  for (std::uint32_t rank = 0; rank < found->layout().rank_count(); ++rank) {
    const bool local = found->layout().LocalIndexOf(rank) >= 0;
    view.ranks.push_back({found->layout().member(rank).node, found->layout().Describe(rank),
                          local && found->RankIsGone(rank)});
  }
  return true;
}

bool Engine::OnShrunk(std::uint64_t group, std::uint64_t new_group,
                      const std::vector<std::uint32_t>& ranks,
                      const std::vector<std::uint64_t>& sessions) {
  if (!membership_.AddShrunk(new_group, group, ranks, sessions, now_ns_)) return false;
  const collective::Group& made = *collectives_.Find(new_group);
  spdlog::info("group {} is formed: {} ranks that are left, group {}", made.name(), ranks.size(),
               new_group);
  OnGroupMade(new_group);
  // The former may have lost a node a moment later than this one did.
  for (std::uint16_t i = 0; i < made.layout().node_count(); ++i) {
    if (i == made.layout().self() || fabric_->IsReachable(made.layout().node(i))) continue;
    const std::uint32_t lost = made.layout().ranks_on(i).front();
    FailGroup(new_group, {FailureCode::kRankLost, static_cast<std::int32_t>(lost),
                          absl::StrCat(made.layout().Describe(lost), " of group ", made.name(),
                                       " is lost: there is no way to its node")});
    break;
  }
  return true;
}

void Engine::OnShrinkReady(std::uint64_t session, std::uint64_t group, std::uint64_t new_group) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const auto waiting = found->second.shrinking.find(group);
  const std::uint32_t* const rank = membership_.RankOf(session, new_group);
  if (waiting == found->second.shrinking.end() || rank == nullptr) return;
  const auto answer = std::move(waiting->second.answer);
  found->second.shrinking.erase(waiting);
  answer->Succeed(ReplyOf(new_group, *rank));
}

void Engine::OnShrinkRefused(std::uint64_t session, std::uint64_t group, const Failure& failure) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const auto waiting = found->second.shrinking.find(group);
  if (waiting == found->second.shrinking.end()) return;
  const auto answer = std::move(waiting->second.answer);
  found->second.shrinking.erase(waiting);
  answer->Fail(failure);
}

void Engine::GiveUpPlace(std::uint64_t session, std::uint64_t new_group) {
  membership_.GiveUp(session, new_group, "it gave up waiting for this group", now_ns_);
}

void Engine::FailGroup(std::uint64_t group, const Failure& failure) {
  collective::Group* const found = collectives_.Find(group);
  OperationKey key;
  key.group = group;
  if (found != nullptr) found->Fail(failure, key, now_ns_);
}

v1::LinkCosts Engine::OwnCosts() {
  v1::LinkCosts costs = cluster::MeasureCosts(fabric_->Snapshot());
  if (options_.link_latency_ns != 0) costs.set_latency_ns(options_.link_latency_ns);
  if (options_.link_bytes_per_second != 0) {
    costs.set_bytes_per_second(options_.link_bytes_per_second);
  }
  return costs;
}

// By rank: the local process that waits for its world; 0: elsewhere, or gone meanwhile.
std::vector<intake::SessionId> Engine::WaitingSessions(
    const std::vector<cluster::FormedMember>& members) const {
  std::vector<intake::SessionId> sessions;
  for (const cluster::FormedMember& member : members) {
    const auto session = sessions_.find(member.session);
    const bool waits = member.node == options_.self.id && session != sessions_.end() &&
                       session->second.attaching != nullptr;
    sessions.push_back(waits ? member.session : 0);
  }
  return sessions;
}

void Engine::OnWorldFormed(const JobId& job, std::uint64_t group,
                           const std::vector<cluster::FormedMember>& members,
                           const v1::LinkCosts& costs) {
  std::vector<collective::Member> layout;
  Forming forming;
  forming.reply.set_group(group);
  forming.reply.set_timeout_default_ms(options_.operation_timeout_ns / 1'000'000);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    const cluster::FormedMember& member = members[rank];
    layout.push_back({member.node, member.node_name, member.pid});
    v1::Member& told = *forming.reply.add_members();
    told.set_rank(rank);
    told.set_node(member.node_name);
    told.set_pid(member.pid);
  }
  const std::vector<intake::SessionId> sessions = WaitingSessions(members);
  if (!membership_.AddWorld(group, job, std::move(layout), sessions, CostsOf(costs), now_ns_)) {
    Failure failure = membership_.RoomFor(job.user);
    if (failure.ok()) {
      failure = {FailureCode::kResourceExhausted, kNoRank,
                 absl::StrCat("job ", job.name, " is beyond what this daemon serves (",
                              collective::kLocalRanksMax, " ranks a node)")};
    }
    return RefuseWorld(group, members, failure);
  }
  spdlog::info("job {} of user {} is formed: {} ranks, group {}", job.name,
               job.user.empty() ? "(shared)" : job.user, members.size(), group);
  OnGroupMade(group);
  TellOfFormed(job, members.size(), group);
  for (const intake::SessionId session : sessions) {
    if (session != 0) forming.sessions.push_back(session);
  }
  forming_[group] = std::move(forming);
  forming_worlds_.Add(group, job.name, members, now_ns_);
  RefuseFailedWorlds();
}

// This node cannot make the group: its own processes are told, and the other nodes, for
// whom it would never be ready.
void Engine::RefuseWorld(std::uint64_t group, const std::vector<cluster::FormedMember>& members,
                         const Failure& failure) {
  v1::PeerMessage message;
  v1::FailureReport& told = *message.mutable_failure_report();
  told.set_group(group);
  told.set_code(static_cast<std::uint32_t>(failure.code));
  told.set_rank(failure.rank);
  told.set_message(absl::StrCat("node ", options_.self.name, ": ", failure.message));
  std::vector<NodeId> nodes;
  for (const cluster::FormedMember& member : members) {
    // Sessions are numbered by each node.
    if (member.node == options_.self.id) {
      if (member.session != 0) rendezvous_.Leave(member.session);
      OnAttachRefused(member.session, failure);
    } else if (std::find(nodes.begin(), nodes.end(), member.node) == nodes.end()) {
      nodes.push_back(member.node);
      SendToNode(member.node, message);
    }
  }
}

void Engine::AnswerForming(const Forming& forming, const Failure& failure) {
  for (const intake::SessionId id : forming.sessions) {
    const auto session = sessions_.find(id);
    if (session == sessions_.end() || session->second.attaching == nullptr) continue;
    const auto answer = std::exchange(session->second.attaching, nullptr);
    if (failure.ok()) {
      answer->Succeed(forming.reply);
    } else {
      answer->Fail(failure);
    }
  }
}

void Engine::OnWorldReady(std::uint64_t group) {
  const auto found = forming_.find(group);
  const collective::Group* const made = collectives_.Find(group);
  // Otherwise its processes are told with the next look at those that have failed.
  if (found == forming_.end() || made == nullptr || made->failed()) return;
  AnswerForming(found->second, {});
  forming_.erase(found);
}

// Those that failed, or were left by all here, before they were ready.
void Engine::RefuseFailedWorlds() {
  std::erase_if(forming_, [this](const auto& entry) {
    const auto& [group, forming] = entry;
    const collective::Group* const made = collectives_.Find(group);
    if (made != nullptr && !made->failed()) return false;
    forming_worlds_.Remove(group);
    AnswerForming(forming, made != nullptr ? made->failure()
                                           : Failure{FailureCode::kRankLost, kNoRank,
                                                     "a rank left while the job was forming"});
    return true;
  });
}

}  // namespace mlxcomm

#include "daemon/jobs/jobs.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/jobs/new_group.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::jobs {

using record::EventSeverity;

namespace {

constexpr std::uint64_t kTimeoutMsMax = 86'400'000;
constexpr std::size_t kWhyBytesMax = 120;  // The reason that a program gives for its exit.

// Without measurements the cost model's defaults apply.
collective::LinkCosts CostsOf(const v1::LinkCosts& reported) {
  collective::LinkCosts costs;
  if (reported.latency_ns() != 0) costs.latency_ns = reported.latency_ns();
  if (reported.bytes_per_second() != 0) costs.bytes_per_second = reported.bytes_per_second();
  if (reported.links_per_node() != 0) costs.links_per_node = reported.links_per_node();
  return costs;
}

std::uint64_t TimeoutNs(std::uint64_t asked_ms, std::uint64_t default_ns) {
  return asked_ms != 0 ? std::min(asked_ms, kTimeoutMsMax) * 1'000'000 : default_ns;
}

Failure SessionHasEnded() {
  return {FailureCode::kCancelled, kNoRank, "the session that asked has ended: connect again"};
}

Failure NotItsGroup(std::uint64_t group) {
  return Invalid(absl::StrCat("group ", group, " is not one of this process's groups"));
}

// Reply: AttachReply or GroupReply.
template <typename Reply>
void WriteGroup(const collective::Group& group, Reply& reply) {
  reply.set_group(group.id());
  reply.set_name(group.name());
  for (std::uint32_t rank = 0; rank < group.layout().rank_count(); ++rank) {
    const collective::Member& member = group.layout().member(rank);
    v1::Member& reported = *reply.add_members();
    reported.set_rank(rank);
    reported.set_node(member.node_name);
    reported.set_pid(member.pid);
  }
}

}  // namespace

Jobs::Jobs(const JobsOptions& options, const link::NodeIdentity& self,
           collective::Collectives& collectives, fabric::Links& links, const Nodes& nodes,
           OperationRecorder& recorder, intake::Processes& processes, record::EventSink& events,
           DirectGroups::Submit submit, const std::uint64_t& now_ns)
    : options_(options),
      self_(self),
      collectives_(collectives),
      links_(links),
      nodes_(nodes),
      processes_(processes),
      now_ns_(now_ns),
      membership_(collectives, options.groups_per_user_max),
      direct_groups_(collectives, membership_, recorder, processes, now_ns, std::move(submit)),
      events_(events),
      recorder_(recorder),
      rendezvous_(self.id, self.name, self.incarnation, outbox_),
      forming_worlds_(self.id, self.name, options.way_timeout_ns, outbox_),
      shrink_(self.id, *this, outbox_) {}

void Jobs::OnSessionEnded(SessionId session, const std::string& why) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const Process& process = found->second.process;
  if (const auto place = membership_.JobRankOf(session)) {
    events_.Report("rank_gone", EventSeverity::kWarning, absl::StrCat("job ", place->job.name),
                   absl::StrCat("rank ", place->rank, " (pid ", process.pid, ") has left: ", why),
                   place->job.user);
  }
  rendezvous_.Leave(session);
  direct_groups_.CloseAllOf(session);
  OnGroupsLeft(session, membership_.OnSessionEnded(session, why, now_ns_));
  const Session ended = std::move(sessions_.extract(found).mapped());
  if (ended.attaching != nullptr) ended.attaching->Fail(SessionHasEnded());
  for (const auto& [group, waiting] : ended.shrinking) waiting.answer->Fail(SessionHasEnded());
  ended_sessions_.push_back(session);
}

std::string Jobs::ProgramOf(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? std::string() : found->second.program;
}

void Jobs::Attach(SessionId session, std::uint64_t call, const v1::AttachRequest& request,
                  std::unique_ptr<AttachAnswer> answer) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    return answer->Fail(SessionHasEnded());
  }
  Session& asking = found->second;
  if (draining_) {
    return answer->Fail({FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"});
  }
  if (asking.attaching != nullptr || membership_.HasPlaces(session)) {
    return answer->Fail({FailureCode::kAlreadyExists, kNoRank,
                         "this process has already joined a job on this connection"});
  }
  asking.attaching = std::move(answer);
  asking.attach_call = call;
  asking.program = std::string(Utf8Prefix(request.program(), Rendezvous::kJobBytesMax));
  v1::RankAnnounced claim;
  claim.set_user(asking.process.user);
  claim.set_job(request.job());
  claim.set_rank(request.rank());
  claim.set_size(request.size());
  claim.set_pid(asking.process.pid);
  claim.set_program(asking.program);
  claim.set_named_by(std::string(Utf8Prefix(request.named_by(), Rendezvous::kNamedByBytesMax)));
  *claim.mutable_costs() = OwnCosts();
  rendezvous_.Attach(session, std::move(claim),
                     TimeoutNs(request.timeout_ms(), options_.rendezvous_timeout_ns), now_ns_);
}

void Jobs::CancelAttach(SessionId session, std::uint64_t call) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.attaching == nullptr) return;
  if (found->second.attach_call != call) return;  // Already answered.
  On(RankLate{session, {FailureCode::kCancelled, kNoRank, "cancelled by the caller"}});
}

void Jobs::On(const RankLate& late) {
  const SessionId session = late.session;
  if (!sessions_.contains(session)) return;
  // Taken out first, because the session may end below.
  const auto attaching = TakeAttaching(session);
  rendezvous_.Leave(session);
  direct_groups_.CloseAllOf(session);
  // Its world may exist already, with ranks that wait for it.
  const std::string why = "it gave up while the job was forming: " + late.failure.message;
  OnGroupsLeft(session, membership_.OnSessionEnded(session, why, now_ns_));
  if (attaching != nullptr) attaching->Fail(late.failure);
}

void Jobs::On(const AttachRefused& refused) {
  if (const auto answer = TakeAttaching(refused.session)) answer->Fail(refused.failure);
}

void Jobs::Detach(SessionId session, const v1::DetachRequest& request, DetachAnswer& answer) {
  const std::string why = MakePrintable(Shortened(request.why(), kWhyBytesMax));
  rendezvous_.Leave(session);
  direct_groups_.CloseAllOf(session);
  OnGroupsLeft(session, why.empty() ? membership_.LeaveAll(session, now_ns_)
                                    : membership_.OnSessionEnded(
                                          session, "its program ended by " + why, now_ns_));
  answer.Succeed(v1::DetachReply());
}

void Jobs::Split(SessionId session, const v1::SplitRequest& request, GroupAnswer& answer) {
  SplitCall call{.parent = request.parent(),
                 .number = request.number(),
                 .ranks = {request.ranks().begin(), request.ranks().end()},
                 .name = request.name()};
  call.group = SplitGroupId(call.parent, call.number, call.ranks);
  const Failure failure = membership_.Split(session, call, now_ns_);
  if (!failure.ok()) return answer.Fail(failure);
  OnGroupMade(call.group);
  answer.Succeed(ReplyOf(call.group, *membership_.RankOf(session, call.group)));
}

void Jobs::OnGroupMade(std::uint64_t group) {
  const collective::Group& made = *collectives_.Find(group);
  recorder_.NameGroup(made, membership_.OriginOf(group)->job);
  direct_groups_.OnGroupMade(group);
  for (std::uint16_t i = 0; i < made.layout().node_count(); ++i) {
    links_.Prepare(made.layout().node(i));
  }
}

void Jobs::Release(SessionId session, const v1::ReleaseRequest& request, ReleaseAnswer& answer) {
  const std::uint64_t group = request.group();
  if (membership_.RankOf(session, group) != nullptr) direct_groups_.CloseForGood(group);
  const std::vector<std::uint64_t> left = membership_.Release(session, group, now_ns_);
  if (left.empty()) return answer.Fail(NotItsGroup(group));
  OnGroupsLeft(session, left);
  // The rank of the job is free again when its process is in none of its groups.
  if (!membership_.HasPlaces(session)) rendezvous_.Leave(session);
  answer.Succeed(v1::ReleaseReply());
}

void Jobs::Cancel(SessionId session, const v1::CancelRequest& request, CancelAnswer& answer) {
  if (membership_.RankOf(session, request.group()) != nullptr) {
    direct_groups_.Close(request.group());
    collectives_.Find(request.group())->Cancel(session, request.ticket(), now_ns_);
  }
  answer.Succeed(v1::CancelReply());
}

void Jobs::Awaited(SessionId session, const v1::AwaitedRequest& request, AwaitedAnswer& answer) {
  v1::AwaitedReply reply;
  if (membership_.RankOf(session, request.group()) != nullptr) {
    direct_groups_.Close(request.group());
    collective::Group::Wait wait =
        collectives_.Find(request.group())->DescribeWait(session, request.ticket(), now_ns_);
    reply.set_text(std::move(wait.text));
    reply.set_circle(std::move(wait.circle));
  } else if (request.group() == 0) {
    reply.set_text(rendezvous_.DescribeOtherHalf(session));
  }
  reply.set_ended(reply.text().empty());
  answer.Succeed(reply);
}

void Jobs::RefuseNew(const Failure& failure, std::uint64_t drains_until_ns) {
  draining_ = true;
  drains_until_ns_ = drains_until_ns;
  for (auto& [id, session] : sessions_) {
    if (session.attaching == nullptr) continue;
    rendezvous_.Leave(id);
    On(AttachRefused{id, failure});
  }
}

void Jobs::EndJob(const JobId& job, const Failure& failure, v1::EndJobReply reply,
                  EndJobAnswer& answer) {
  std::vector<std::uint64_t> groups;
  collectives_.ForEach([&](const collective::Group& group) {
    if (membership_.OriginOf(group.id())->job == job) groups.push_back(group.id());
  });
  std::vector<SessionId> waiting;
  for (const Rendezvous::Waiting& one : rendezvous_.AllWaiting()) {
    if (one.session != 0 && JobOf(one.claim) == job) waiting.push_back(one.session);
  }
  for (const std::uint64_t group : groups) {
    const collective::Group* const found = collectives_.Find(group);
    if (found != nullptr && !found->failed()) FailGroup(group, failure);
  }
  for (auto& [id, session] : sessions_) {
    const auto place = membership_.JobRankOf(id);
    if (place && place->job == job) reply.add_pids(session.process.pid);
    for (const std::uint64_t group : groups) {
      if (!session.shrinking.contains(group)) continue;
      shrink_.Withdraw(id, group);
      On(ShrinkRefused{id, group, failure});
    }
  }
  for (const SessionId session : waiting) {
    rendezvous_.Leave(session);
    On(AttachRefused{session, failure});
  }
  if (waiting.empty() && reply.pids().empty()) {
    return answer.Fail(Invalid(absl::StrCat("job ", job.name, " has no rank on ", self_.name)));
  }
  answer.Succeed(reply);
}

void Jobs::FailAll(const Failure& failure) {
  std::vector<std::uint64_t> groups;
  collectives_.ForEach([&](const collective::Group& group) { groups.push_back(group.id()); });
  for (const std::uint64_t group : groups) FailGroup(group, failure);
  RefuseShrinking(failure);
}

std::uint32_t Jobs::RankLeft(const collective::Group& group) {
  const std::vector<std::uint32_t>& ranks = group.layout().local_ranks();
  const auto gone =
      std::ranges::find_if(ranks, [&group](std::uint32_t rank) { return group.RankIsGone(rank); });
  return gone == ranks.end() ? ranks.front() : *gone;
}

// `session` may have ended already.
void Jobs::OnGroupsLeft(SessionId session, const std::vector<std::uint64_t>& groups) {
  const auto found = sessions_.find(session);
  for (const std::uint64_t group : groups) {
    if (found != sessions_.end() && found->second.shrinking.contains(group)) {
      shrink_.Withdraw(session, group);
      On(ShrinkRefused{
          session, group, {FailureCode::kCancelled, kNoRank, "this process has left the group"}});
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

void Jobs::RemoveGroupsLeft() {
  for (const std::uint64_t group : membership_.RemoveLeft()) {
    shrink_.OnGroupRemoved(group);
    direct_groups_.OnGroupRemoved(group);
    recorder_.OnGroupRemoved(group);
    if (const v1::EndedJob* const job = history_.OnRemoved(group, now_ns_)) {
      events_.Report("job_ended", EventSeverity::kNote, absl::StrCat("job ", job->name()),
                     job->code().empty() ? "has ended here: its ranks of this node have left"
                                         : "has ended here, after its failure",
                     job->user());
    }
  }
}

void Jobs::ReportFailures() {
  if (!recorder_.AnyFailed()) return;
  for (const OperationRecorder::FailedGroup& failed : recorder_.TakeFailures()) {
    const collective::Group* const group = collectives_.Find(failed.group);
    const bool is_job = history_.OnFailed(failed.group, failed.verdict,
                                          group == nullptr ? nullptr : &group->layout());
    const GroupOrigin* const origin = membership_.OriginOf(failed.group);
    // Without an origin, visible only to users who see everything.
    events_.Report(is_job ? "job_failed" : "group_failed", EventSeverity::kError,
                   absl::StrCat(is_job ? "job " : "group ", failed.name),
                   absl::StrCat(FailureCodeName(failed.verdict.code), ": ", failed.verdict.message),
                   origin == nullptr ? "" : origin->job.user);
  }
}

void Jobs::CleanUp() {
  ReportFailures();
  if (!forming_.empty()) RefuseFailedWorlds();
  if (membership_.AnyLeft()) RemoveGroupsLeft();
  // An ended session's memory stays until no operation names it.
  std::erase_if(ended_sessions_, [this](SessionId session) {
    if (collectives_.UsesSession(session)) return false;
    processes_.ReleaseMemory(session);
    return true;
  });
}

void Jobs::OnTime() {
  rendezvous_.OnTime(now_ns_);
  forming_worlds_.OnTime(now_ns_);
  shrink_.OnTime(now_ns_);
  direct_groups_.OnTime();
}

std::uint64_t Jobs::NextDeadline() const {
  return std::min({rendezvous_.NextDeadline(), forming_worlds_.NextDeadline(),
                   shrink_.NextDeadline(), direct_groups_.NextDeadline()});
}

v1::GroupReply Jobs::ReplyOf(std::uint64_t group, std::uint32_t rank) {
  v1::GroupReply reply;
  WriteGroup(*collectives_.Find(group), reply);
  reply.set_rank(rank);
  return reply;
}

void Jobs::Shrink(SessionId session, std::uint64_t call, const v1::ShrinkRequest& request,
                  std::unique_ptr<GroupAnswer> answer) {
  const auto found = sessions_.find(session);
  const std::uint32_t* const rank = membership_.RankOf(session, request.group());
  if (found == sessions_.end() || rank == nullptr) {
    return answer->Fail(NotItsGroup(request.group()));
  }
  if (draining_) {
    return answer->Fail({FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"});
  }
  if (found->second.shrinking.contains(request.group())) {
    return answer->Fail({FailureCode::kAlreadyExists, static_cast<std::int32_t>(*rank),
                         "this process is already waiting for the group to shrink"});
  }
  found->second.shrinking[request.group()] = {call, std::move(answer)};
  const std::uint64_t timeout_ns = TimeoutNs(request.timeout_ms(), options_.rendezvous_timeout_ns);
  shrink_.Ask(session, request.group(), *rank, timeout_ns, now_ns_);
}

void Jobs::CancelShrink(SessionId session, std::uint64_t call) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  for (const auto& [group, shrinking] : found->second.shrinking) {
    if (shrinking.call != call) continue;
    const std::uint64_t cancelled = group;
    shrink_.Withdraw(session, cancelled);
    return On(ShrinkRefused{
        session, cancelled, {FailureCode::kCancelled, kNoRank, "cancelled by the caller"}});
  }
}

void Jobs::RefuseShrinking(const Failure& failure) {
  for (auto& [id, session] : sessions_) {
    while (!session.shrinking.empty()) {
      const std::uint64_t group = session.shrinking.begin()->first;
      shrink_.Withdraw(id, group);
      On(ShrinkRefused{id, group, failure});
    }
  }
}

bool Jobs::Look(std::uint64_t group, GroupView& view) {
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

bool Jobs::MakeShrunk(std::uint64_t group, std::uint64_t new_group,
                      const std::vector<std::uint32_t>& ranks,
                      const std::vector<SessionId>& sessions) {
  if (!membership_.AddShrunk(new_group, group, ranks, sessions, now_ns_)) return false;
  const collective::Group& made = *collectives_.Find(new_group);
  spdlog::info("group {} is formed: {} remaining ranks, group {}", made.name(), ranks.size(),
               new_group);
  OnGroupMade(new_group);
  history_.OnShrunk(group, new_group, made.layout().rank_count());
  // Perhaps this node has lost a node that the former had not lost yet.
  for (std::uint16_t i = 0; i < made.layout().node_count(); ++i) {
    if (i == made.layout().self() || links_.IsReachable(made.layout().node(i))) continue;
    const std::uint32_t lost = made.layout().ranks_on(i).front();
    FailGroup(new_group, {FailureCode::kRankLost, static_cast<std::int32_t>(lost),
                          absl::StrCat(made.layout().Describe(lost), " of group ", made.name(),
                                       " is lost: there is no route to its node")});
    break;
  }
  return true;
}

// nullptr if it no longer waits.
std::unique_ptr<GroupAnswer> Jobs::TakeShrinking(SessionId session, std::uint64_t group) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return nullptr;
  auto waiting = found->second.shrinking.extract(group);
  return waiting.empty() ? nullptr : std::move(waiting.mapped().answer);
}

void Jobs::On(const ShrinkReady& ready) {
  const std::uint32_t* const rank = membership_.RankOf(ready.session, ready.new_group);
  if (rank == nullptr) return;
  if (const auto answer = TakeShrinking(ready.session, ready.group))
    answer->Succeed(ReplyOf(ready.new_group, *rank));
}

void Jobs::On(const ShrinkRefused& refused) {
  if (const auto answer = TakeShrinking(refused.session, refused.group))
    answer->Fail(refused.failure);
}

void Jobs::FailGroup(std::uint64_t group, const Failure& failure) {
  collective::Group* const found = collectives_.Find(group);
  if (found != nullptr) found->Fail(failure, {.group = group}, now_ns_);
}

v1::LinkCosts Jobs::OwnCosts() const {
  v1::NodeStatus links;
  links_.Describe(links);
  v1::LinkCosts costs = MeasureCosts(links);
  if (options_.link_latency_ns != 0) costs.set_latency_ns(options_.link_latency_ns);
  if (options_.link_bytes_per_second != 0) {
    costs.set_bytes_per_second(options_.link_bytes_per_second);
  }
  return costs;
}

// Keyed by rank: the local session that waits for its world; 0: remote, or gone.
std::vector<SessionId> Jobs::WaitingSessions(const std::vector<FormedMember>& members) const {
  std::vector<SessionId> sessions;
  for (const FormedMember& member : members) {
    const auto session = sessions_.find(member.session);
    const bool waits = member.node == self_.id && session != sessions_.end() &&
                       session->second.attaching != nullptr;
    sessions.push_back(waits ? member.session : 0);
  }
  return sessions;
}

void Jobs::On(const WorldFormed& world) {
  const auto& [job, group, members, costs] = world;
  std::vector<collective::Member> layout;
  for (const FormedMember& member : members) {
    layout.push_back({member.node, member.node_name, member.pid});
  }
  const std::vector<SessionId> sessions = WaitingSessions(members);
  if (!membership_.AddWorld(group, job, std::move(layout), sessions, CostsOf(costs), now_ns_)) {
    Failure failure = membership_.RoomFor(job.user);
    if (failure.ok()) {
      failure = {FailureCode::kResourceExhausted, kNoRank,
                 absl::StrCat("job ", job.name, " exceeds this daemon's limit of ",
                              collective::kLocalRanksMax, " ranks on a node")};
    }
    return RefuseWorld(world, failure);
  }
  spdlog::info("user {}: job {} is formed: {} ranks, group {}",
               job.user.empty() ? "(shared)" : job.user, job.name, members.size(), group);
  OnGroupMade(group);
  history_.OnFormed(group, job, static_cast<std::uint32_t>(members.size()));
  events_.Report(
      "job_formed", EventSeverity::kNote, absl::StrCat("job ", job.name),
      absl::StrCat("is formed: ", members.size(), members.size() == 1 ? " rank" : " ranks"),
      job.user);
  forming_[group] = sessions;
  forming_worlds_.Add(
      group, job.name, members, [this](const NodeId& node) { return IsReachable(node); }, now_ns_);
  RefuseFailedWorlds();
}

// This node cannot make the group: reports that to its processes and to the other nodes.
void Jobs::RefuseWorld(const WorldFormed& world, const Failure& failure) {
  v1::PeerMessage message;
  const std::string why = absl::StrCat("node ", self_.name, ": ", failure.message);
  collective::Write(world.group, {failure.code, failure.rank, why},
                    *message.mutable_failure_report());
  std::vector<NodeId> nodes;
  for (const FormedMember& member : world.members) {
    if (member.node == self_.id) {
      if (member.session != 0) rendezvous_.Leave(member.session);
      On(AttachRefused{member.session, failure});
    } else if (std::ranges::find(nodes, member.node) == nodes.end()) {
      nodes.push_back(member.node);
      outbox_.emplace_back(SendTo{member.node, message});
    }
  }
}

// nullptr if it no longer waits.
std::unique_ptr<AttachAnswer> Jobs::TakeAttaching(SessionId session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : std::exchange(found->second.attaching, nullptr);
}

void Jobs::On(const WorldReady& ready) {
  const auto found = forming_.find(ready.group);
  const collective::Group* const made = collectives_.Find(ready.group);
  // Otherwise RefuseFailedWorlds answers its processes.
  if (found == forming_.end() || made == nullptr || made->failed()) return;
  rendezvous_.OnWorldReady(ready.group);
  v1::AttachReply reply;
  WriteGroup(*made, reply);
  reply.set_timeout_default_ms(options_.operation_timeout_ns / 1'000'000);
  for (const SessionId session : found->second) {
    if (const auto answer = TakeAttaching(session)) answer->Succeed(reply);
  }
  forming_.erase(found);
}

// Answers for worlds that failed, or lost all local ranks, before they were ready; waits for the
// verdict.
void Jobs::RefuseFailedWorlds() {
  std::erase_if(forming_, [this](const auto& entry) {
    const auto& [group, sessions] = entry;
    const collective::Group* const made = collectives_.Find(group);
    if (made != nullptr && !made->has_verdict()) return false;
    Failure failure = made != nullptr ? made->failure()
                                      : Failure{FailureCode::kRankLost, kNoRank,
                                                "a rank left while the job was forming"};
    // A rank that gave up did not know which nodes had not joined.
    absl::StrAppend(&failure.message, forming_worlds_.Remove(group));
    for (const SessionId session : sessions) On(AttachRefused{session, failure});
    return true;
  });
}

void Jobs::SendToNode(const NodeId& node, std::shared_ptr<const v1::PeerMessage> message) {
  collective::Action& action = collectives_.actions().emplace_back();
  action.kind = collective::Action::Kind::kMessage;
  action.node = node;
  action.message = std::move(message);
}

void Jobs::On(SendTo& request) {
  SendToNode(request.node, std::make_shared<const v1::PeerMessage>(std::move(request.message)));
}

void Jobs::On(SendToAll& request) {
  const auto message = std::make_shared<const v1::PeerMessage>(std::move(request.message));
  for (const auto& [id, node] : nodes_) SendToNode(id, message);
}

void Jobs::CarryOut() {
  while (!outbox_.empty()) {
    for (Request& request : std::exchange(outbox_, {})) {
      std::visit([this](auto& one) { On(one); }, request);
    }
  }
}

void Jobs::OnNodeUp(const link::NodeIdentity& node) {
  rendezvous_.OnNodeUp(node);
  rendezvous_.TakeHeld();
  forming_worlds_.OnNodeUp(node.id);
  shrink_.OnNodeUp(node.id);
  CarryOut();
}

bool Jobs::OnMessage(const NodeId& node, const v1::PeerMessage& message) {
  switch (message.body_case()) {
    case v1::PeerMessage::kRankAnnounced:
      rendezvous_.OnRankAnnounced(node, message.rank_announced());
      return true;
    case v1::PeerMessage::kRankWithdrawn:
      rendezvous_.OnRankWithdrawn(node, message.rank_withdrawn());
      return true;
    case v1::PeerMessage::kWorldFormed:
      rendezvous_.OnWorldFormedElsewhere(node, message.world_formed());
      return true;
    case v1::PeerMessage::kWorldRefused:
      rendezvous_.OnWorldRefused(node, message.world_refused());
      return true;
    case v1::PeerMessage::kWorldJoined:
      forming_worlds_.OnJoined(node, message.world_joined().group());
      return true;
    case v1::PeerMessage::kWorldReady:
      forming_worlds_.OnReady(node, message.world_ready().group());
      return true;
    case v1::PeerMessage::kShrinkState: return shrink_.OnState(node, message.shrink_state());
    case v1::PeerMessage::kShrinkFormed: return shrink_.OnFormed(node, message.shrink_formed());
    case v1::PeerMessage::kShrinkJoined:
      shrink_.OnJoined(node, message.shrink_joined());
      return true;
    case v1::PeerMessage::kShrinkReady: shrink_.OnReady(node, message.shrink_ready()); return true;
    default: return false;
  }
}

}  // namespace mlxcomm::jobs

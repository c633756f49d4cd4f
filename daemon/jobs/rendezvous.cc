#include "daemon/jobs/rendezvous.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/jobs/new_group.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::jobs {
namespace {

constexpr std::size_t kPartsBytesMax = 400;

v1::PeerMessage Withdrawal(const JobId& id, std::uint64_t attempt) {
  v1::PeerMessage message;
  v1::RankWithdrawn& withdrawn = *message.mutable_rank_withdrawn();
  withdrawn.set_job(id.name);
  withdrawn.set_user(id.user);
  withdrawn.set_attempt(attempt);
  return message;
}

v1::PeerMessage Announcement(const v1::RankAnnounced& claim) {
  v1::PeerMessage message;
  *message.mutable_rank_announced() = claim;
  return message;
}

// "A=1a2b B=*3c4d*5e6f*": the variables by name; between * are addresses that "localhost" may stand
// for.
std::map<std::string, std::string> Variables(const std::string& named_by) {
  std::map<std::string, std::string> variables;
  for (const absl::string_view variable : absl::StrSplit(named_by, ' ')) {
    const std::pair<std::string, std::string> both =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    variables.emplace(MakePrintable(both.first), both.second);
  }
  return variables;
}

bool HasOwnAddress(const std::string& named_by) { return absl::StrContains(named_by, "=*"); }

bool MayBeSame(const std::string& a, const std::string& b) {
  const auto is_one_of = [](const std::string& one, const std::string& all) {
    return all.starts_with('*') && absl::StrContains(all, absl::StrCat("*", one, "*"));
  };
  return a == b || is_one_of(a, b) || is_one_of(b, a);
}

// The names of the variables that differ.
std::set<std::string> Differences(const std::string& a, const std::string& b) {
  const std::map<std::string, std::string> of_a = Variables(a);
  const std::map<std::string, std::string> of_b = Variables(b);
  std::set<std::string> differ;
  for (const auto& [in, other] : {std::pair(&of_a, &of_b), std::pair(&of_b, &of_a)}) {
    for (const auto& [name, value] : *in) {
      const auto found = other->find(name);
      if (found == other->end() || !MayBeSame(found->second, value)) differ.insert(name);
    }
  }
  return differ;
}

}  // namespace

std::string Rendezvous::NodeName(const NodeId& node) const {
  if (node == self_) return self_name_;
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? node.ToString() : found->second.name;
}

Failure Rendezvous::CheckClaim(const JobId& id, std::uint32_t rank, std::uint32_t size) {
  if (id.name.empty() || id.name.size() > kJobBytesMax || !IsPlainText(id.name)) {
    return Invalid(absl::StrCat("job: expected 1 to ", kJobBytesMax,
                                " bytes of UTF-8 without control characters"));
  }
  if (id.user.size() > kUserBytesMax || !IsPlainText(id.user)) {
    return Invalid(absl::StrCat("user: expected at most ", kUserBytesMax,
                                " bytes of UTF-8 without control characters"));
  }
  if (size == 0 || size > kSizeMax) {
    return Invalid(absl::StrCat("size: expected 1 to ", kSizeMax, ", got ", size));
  }
  if (rank >= size) {
    return Invalid(absl::StrCat("rank: expected 0 to ", size - 1, ", got ", rank));
  }
  return {};
}

Failure Rendezvous::Objection(const v1::RankAnnounced& claim, bool local) const {
  const auto taken = [&](std::uint64_t pid, const std::string& node) {
    return Failure{FailureCode::kAlreadyExists, static_cast<std::int32_t>(claim.rank()),
                   absl::StrCat("rank ", claim.rank(), " of job ", claim.job(), " is taken by pid ",
                                pid, " on node ", node,
                                ": end that process, or use another job name (MLXCOMM_JOB)")};
  };
  if (const auto found = running_.find({JobOf(claim), claim.rank()}); found != running_.end()) {
    return taken(found->second.pid, self_name_);
  }
  const auto job = jobs_.find(JobOf(claim));
  if (job == jobs_.end()) return {};
  for (const auto& [key, waiting] : job->second) {
    // Each node speaks for its own ranks; a local claim is compared with all.
    if (!local && waiting.node != self_) continue;
    const std::uint32_t rank = waiting.claim.rank();
    if (rank == claim.rank()) return taken(waiting.claim.pid(), NodeName(waiting.node));
    if (waiting.claim.size() != claim.size()) {
      return {FailureCode::kInvalidArgument, static_cast<std::int32_t>(claim.rank()),
              absl::StrCat("job ", claim.job(), ": rank ", claim.rank(), " has size ", claim.size(),
                           ", but rank ", rank, " (", NodeName(waiting.node), ", pid ",
                           waiting.claim.pid(), ") has size ", waiting.claim.size(),
                           ": start all ranks with the same size")};
    }
  }
  return {};
}

void Rendezvous::Attach(std::uint64_t session, v1::RankAnnounced claim, std::uint64_t timeout_ns,
                        std::uint64_t now_ns) {
  const JobId id = JobOf(claim);
  Failure failure = CheckClaim(id, claim.rank(), claim.size());
  if (failure.ok()) failure = Objection(claim, /*local=*/true);
  if (!failure.ok()) {
    outbox_.emplace_back(AttachRefused{session, std::move(failure)});
    return;
  }
  Waiting& waiting = jobs_[id][{claim.rank(), self_}];
  claim.set_attempt(next_attempt_++);
  *claim.mutable_costs() = BoundedCosts(claim.costs());
  waiting.claim = std::move(claim);
  waiting.node = self_;
  waiting.session = session;
  waiting.timeout_ns = timeout_ns;
  waiting.deadline_ns = now_ns + std::min(timeout_ns, kNever - 1 - now_ns);
  deadlines_.insert(waiting.deadline_ns);
  outbox_.emplace_back(SendToAll{Announcement(waiting.claim)});
  FormIfComplete(id);
  JoinOtherHalf(id);
}

void Rendezvous::Forget(const JobId& id, std::uint32_t rank, const NodeId& node) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const auto waiting = found->second.find({rank, node});
  if (waiting == found->second.end()) return;
  Uncount(waiting->second);
  found->second.erase(waiting);
  if (!found->second.empty()) return;
  jobs_.erase(found);
  ForgetLeft(id);
}

// Only ranks that wait here use the list of those that left.
void Rendezvous::ForgetWhoLeft(const JobId& id, std::uint32_t rank, const NodeId& node) {
  Forget(id, rank, node);
  const auto job = jobs_.find(id);
  if (job == jobs_.end() || deadlines_.empty() || left_count_ >= kLeftMax) return;
  const bool waits_here = std::ranges::any_of(
      job->second, [this](const auto& entry) { return entry.second.node == self_; });
  if (waits_here && left_[id].insert(rank).second) ++left_count_;
}

void Rendezvous::ForgetLeft(const JobId& id) {
  const auto found = left_.find(id);
  if (found == left_.end()) return;
  left_count_ -= found->second.size();
  left_.erase(found);
}

void Rendezvous::Uncount(const Waiting& waiting) {
  if (waiting.node == self_) {
    deadlines_.erase(deadlines_.find(waiting.deadline_ns));
    return;
  }
  --waiting_remotely_;
  const auto of_node = waiting_of_.find(waiting.node);
  if (--of_node->second == 0) waiting_of_.erase(of_node);
}

void Rendezvous::Leave(std::uint64_t session) {
  for (const auto& [id, job] : jobs_) {
    for (const auto& [key, waiting] : job) {
      if (waiting.node != self_ || waiting.session != session) continue;
      Withdraw(id, waiting.claim.attempt());
      return ForgetWhoLeft(JobId(id), waiting.claim.rank(), self_);
    }
  }
  std::erase_if(running_, [this, session](const auto& entry) {
    const auto& [rank, taken] = entry;
    if (taken.session != session) return false;
    // A node that missed the world still has the rank as waiting.
    if (!taken.is_known_everywhere) Withdraw(rank.first, taken.attempt);
    return true;
  });
}

void Rendezvous::Withdraw(const JobId& id, std::uint64_t attempt) {
  outbox_.emplace_back(SendToAll{Withdrawal(id, attempt)});
}

void Rendezvous::OnWorldReady(std::uint64_t group) {
  for (auto& [rank, taken] : running_) {
    if (taken.group == group) taken.is_known_everywhere = true;
  }
}

void Rendezvous::OnNodeUp(const link::NodeIdentity& node) {
  nodes_[node.id] = node;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [key, waiting] : job) {
      if (waiting.node == self_) outbox_.emplace_back(SendTo{node.id, Announcement(waiting.claim)});
    }
  }
}

void Rendezvous::OnNodeLost(const NodeId& node) {
  std::erase_if(held_, [&node](const Held& held) { return held.from == node; });
  nodes_.erase(node);
  std::vector<std::pair<JobId, std::uint32_t>> gone;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [key, waiting] : job) {
      if (waiting.node == node) gone.emplace_back(id, waiting.claim.rank());
    }
  }
  for (const auto& [id, rank] : gone) Forget(id, rank, node);
  std::erase_if(settled_early_, [&node](const Attempt& attempt) { return attempt.first == node; });
  for (const auto& [id, rank] : gone) FormIfComplete(id);  // Perhaps a rank was claimed twice.
}

void Rendezvous::OnRankAnnounced(const NodeId& node, const v1::RankAnnounced& announced) {
  if (std::erase(settled_early_, Attempt{node, announced.attempt()}) != 0) return;
  v1::RankAnnounced claim = announced;
  claim.DiscardUnknownFields();
  claim.set_program(std::string(Utf8Prefix(announced.program(), kJobBytesMax)));
  claim.set_named_by(std::string(Utf8Prefix(announced.named_by(), kNamedByBytesMax)));
  *claim.mutable_costs() = BoundedCosts(announced.costs());
  const JobId id = JobOf(claim);
  Failure failure = CheckClaim(id, claim.rank(), claim.size());
  if (failure.ok()) failure = Objection(claim, /*local=*/false);
  const auto of_node = waiting_of_.find(node);
  const std::size_t own = of_node == waiting_of_.end() ? 0 : of_node->second;
  if (failure.ok() && (waiting_remotely_ >= kWaitingMax || own >= kWaitingPerNodeMax)) {
    failure = {FailureCode::kResourceExhausted, kNoRank,
               absl::StrCat("node ", self_name_, " already has ",
                            own >= kWaitingPerNodeMax ? own : waiting_remotely_, " waiting ranks",
                            own >= kWaitingPerNodeMax ? " of that node" : "")};
  }
  if (!failure.ok()) {
    v1::PeerMessage message;
    v1::WorldRefused& refused = *message.mutable_world_refused();
    refused.set_job(id.name);
    refused.set_user(id.user);
    refused.set_attempt(announced.attempt());
    refused.set_code(static_cast<std::uint32_t>(failure.code));
    refused.set_rank(failure.rank);
    refused.set_message(failure.message);
    outbox_.emplace_back(SendTo{node, std::move(message)});
    return;
  }
  Forget(id, claim.rank(), node);  // A later claim replaces an earlier one.
  ++waiting_remotely_;
  ++waiting_of_[node];
  Waiting& waiting = jobs_[id][{claim.rank(), node}];
  waiting = {std::move(claim), node, 0, kNever, 0};
  FormIfComplete(id);
  JoinOtherHalf(id);
}

void Rendezvous::OnRankWithdrawn(const NodeId& node, const v1::RankWithdrawn& withdrawn) {
  const JobId id{withdrawn.user(), withdrawn.job()};
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  for (const auto& [key, waiting] : job->second) {
    if (waiting.node != node || waiting.claim.attempt() != withdrawn.attempt()) continue;
    ForgetWhoLeft(id, waiting.claim.rank(), node);
    return FormIfComplete(id);  // Perhaps another node claims the rank too.
  }
}

// Only rank 0's node forms the world.
void Rendezvous::FormIfComplete(const JobId& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const Job& job = found->second;
  const Waiting& first = job.begin()->second;
  if (first.node != self_ || job.size() != first.claim.size()) return;
  std::uint32_t next = 0;
  for (const auto& [key, waiting] : job) {
    if (waiting.claim.rank() != next++) return;  // Missing, or claimed twice.
    if (waiting.claim.size() != first.claim.size()) return;
  }
  const std::uint64_t group = NewGroupId();
  v1::PeerMessage message;
  v1::WorldFormed& formed = *message.mutable_world_formed();
  formed.set_job(id.name);
  formed.set_user(id.user);
  formed.set_group(group);
  std::vector<FormedMember> members;
  v1::LinkCosts costs;
  for (const auto& [key, waiting] : job) {
    TakeWorse(waiting.claim.costs(), costs);
    v1::WorldMember& member = *formed.add_members();
    member.set_node_id(waiting.node.bytes.data(), waiting.node.bytes.size());
    member.set_node_name(NodeName(waiting.node));
    member.set_pid(waiting.claim.pid());
    member.set_attempt(waiting.claim.attempt());
    members.push_back({waiting.node, NodeName(waiting.node), waiting.claim.pid(), waiting.session,
                       waiting.deadline_ns, waiting.timeout_ns});
    if (waiting.node == self_) {
      running_[{id, key.first}] = {waiting.session, waiting.claim.pid(), waiting.claim.attempt(),
                                   group};
    }
    Uncount(waiting);
  }
  jobs_.erase(found);
  ForgetLeft(id);
  *formed.mutable_costs() = costs;
  outbox_.emplace_back(SendToAll{std::move(message)});
  outbox_.emplace_back(WorldFormed{id, group, std::move(members), costs});
}

// nullptr if the rank does not wait here.
const Rendezvous::Waiting* Rendezvous::WaitingIn(const v1::WorldFormed& formed,
                                                 std::uint32_t rank) const {
  const auto job = jobs_.find(JobId{formed.user(), formed.job()});
  if (job == jobs_.end()) return nullptr;
  const auto waiting = job->second.find({rank, self_});
  const bool is_it =
      waiting != job->second.end() &&
      waiting->second.claim.attempt() == formed.members(static_cast<int>(rank)).attempt() &&
      waiting->second.claim.size() == static_cast<std::uint32_t>(formed.members_size());
  return is_it ? &waiting->second : nullptr;
}

NodeId Rendezvous::NodeOf(const v1::WorldMember& member) {
  NodeId node;
  std::ranges::copy(member.node_id(), node.bytes.begin());
  return node;
}

// True if the world has a rank of a restarted daemon, while this node has not noticed the loss of
// the former one yet. When it does, it fails all groups of that node, and this world must not be
// among them.
bool Rendezvous::NamesAnotherDaemon(const v1::WorldFormed& formed) const {
  return std::ranges::any_of(formed.members(), [this](const v1::WorldMember& member) {
    const auto known = nodes_.find(NodeOf(member));
    return known != nodes_.end() && !MayBeOf(member.attempt(), known->second);
  });
}

// True if it comes from the node of rank 0, and its fields are within bounds.
bool Rendezvous::IsFine(const NodeId& node, const v1::WorldFormed& formed) const {
  const auto size = static_cast<std::uint32_t>(formed.members_size());
  const auto has_node = [&node](const v1::WorldMember& member) {
    return member.node_id().size() == node.bytes.size();
  };
  return CheckClaim({formed.user(), formed.job()}, 0, size).ok() &&
         std::ranges::all_of(formed.members(), has_node) && NodeOf(formed.members(0)) == node;
}

// A node outside the world makes no group of it, and would not learn of its failure.
bool Rendezvous::IsToBeHeld(const NodeId& node, const v1::WorldFormed& formed) const {
  const bool is_in_it = std::ranges::any_of(
      formed.members(), [this](const v1::WorldMember& member) { return NodeOf(member) == self_; });
  if (!is_in_it || !NamesAnotherDaemon(formed)) return false;
  const auto of_sender =
      std::ranges::count_if(held_, [&node](const Held& held) { return held.from == node; });
  return of_sender < static_cast<std::ptrdiff_t>(kHeldPerNodeMax) && held_.size() < kHeldMax;
}

void Rendezvous::OnWorldFormedElsewhere(const NodeId& node, const v1::WorldFormed& formed) {
  if (!IsFine(node, formed)) return;
  if (IsToBeHeld(node, formed)) {
    held_.push_back({node, formed});
  } else {
    TakeWorld(formed);
  }
}

void Rendezvous::TakeHeld() {
  for (Held& held : std::exchange(held_, {})) OnWorldFormedElsewhere(held.from, held.formed);
}

void Rendezvous::TakeHeld(std::uint64_t group) {
  const auto found = std::ranges::find_if(
      held_, [group](const Held& held) { return held.formed.group() == group; });
  if (found == held_.end()) return;
  const Held held = std::move(*found);
  held_.erase(found);
  TakeWorld(held.formed);
}

void Rendezvous::TakeWorld(const v1::WorldFormed& formed) {
  const auto size = static_cast<std::uint32_t>(formed.members_size());
  const JobId id{formed.user(), formed.job()};
  std::vector<FormedMember> members;
  bool any_local = false;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const v1::WorldMember& reported = formed.members(static_cast<int>(rank));
    FormedMember member;
    member.node = NodeOf(reported);
    member.node_name = MakePrintable(Utf8Prefix(reported.node_name(), kJobBytesMax));
    member.pid = reported.pid();
    any_local = any_local || member.node == self_;
    const Waiting* const waiting = member.node == self_ ? WaitingIn(formed, rank) : nullptr;
    if (waiting != nullptr) {
      member.session = waiting->session;
      member.pid = waiting->claim.pid();
      member.deadline_ns = waiting->deadline_ns;
      member.timeout_ns = waiting->timeout_ns;
      running_[{id, rank}] = {member.session, member.pid, waiting->claim.attempt(), formed.group()};
      WithdrawFromOthers(formed, rank);
    }
    members.push_back(std::move(member));
  }
  Settle(formed, members);
  if (any_local) {
    outbox_.emplace_back(
        WorldFormed{id, formed.group(), std::move(members), BoundedCosts(formed.costs())});
  }
}

// Nodes outside the world may miss it. So may a restarted daemon, if the world has an attempt of
// its earlier run.
void Rendezvous::WithdrawFromOthers(const v1::WorldFormed& formed, std::uint32_t rank) {
  const v1::PeerMessage message =
      Withdrawal({formed.user(), formed.job()}, formed.members(static_cast<int>(rank)).attempt());
  for (const auto& [node, known] : nodes_) {
    const auto is_it = [&node = node, &known = known](const v1::WorldMember& member) {
      return NodeOf(member) == node && MayBeOf(member.attempt(), known);
    };
    if (std::ranges::none_of(formed.members(), is_it)) outbox_.emplace_back(SendTo{node, message});
  }
}

// The world's ranks no longer wait; a newer attempt of the same rank does.
void Rendezvous::Settle(const v1::WorldFormed& formed, const std::vector<FormedMember>& members) {
  const JobId id{formed.user(), formed.job()};
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    const NodeId& node = members[rank].node;
    const std::uint64_t attempt = formed.members(static_cast<int>(rank)).attempt();
    const auto job = jobs_.find(id);
    if (job != jobs_.end()) {
      const auto waiting = job->second.find({rank, node});
      const bool is_it = waiting != job->second.end() &&
                         waiting->second.claim.attempt() == attempt &&
                         (node != self_ || members[rank].session != 0);
      if (is_it) {
        Forget(id, rank, node);
        continue;
      }
    }
    if (node != self_) SettleEarly({node, attempt});
  }
}

void Rendezvous::SettleEarly(const Attempt& attempt) {
  settled_early_.push_back(attempt);
  if (settled_early_.size() > kSettledMax) settled_early_.pop_front();
}

void Rendezvous::OnWorldRefused(const NodeId&, const v1::WorldRefused& refused) {
  const auto job = jobs_.find(JobId{refused.user(), refused.job()});
  if (job == jobs_.end()) return;
  for (const auto& [key, waiting] : job->second) {
    if (waiting.node != self_ || waiting.claim.attempt() != refused.attempt()) continue;
    const auto code = static_cast<FailureCode>(refused.code());
    const bool known = refused.code() <= 255 && IsValid(code) && code != FailureCode::kNone;
    return Refuse(waiting.session, {known ? code : FailureCode::kInternal, refused.rank(),
                                    MakePrintable(Utf8Prefix(refused.message(), 1000))});
  }
}

std::string Rendezvous::DescribeMissing(const JobId& id, const Job& job, std::uint32_t size,
                                        bool have_left) const {
  std::vector<std::string> missing;
  auto next = job.begin();
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const bool is_there = next != job.end() && next->first.first == rank;
    while (next != job.end() && next->first.first == rank) ++next;
    const auto left = left_.find(id);
    const bool has_left = left != left_.end() && left->second.contains(rank);
    if (!is_there && has_left == have_left) missing.push_back(absl::StrCat(rank));
  }
  if (missing.empty()) return {};
  return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", ShortList(missing, ", ", 80));
}

// Jobs of one user and launcher that have different ranks and together have all of them: their
// names come from variables that were meant to be the same. This job comes first; empty: no others,
// or too many.
std::vector<Rendezvous::Jobs::const_iterator> Rendezvous::PartsOf(const JobId& id) const {
  constexpr std::size_t kPartsMax = 16;
  const auto own = jobs_.find(id);
  if (own == jobs_.end()) return {};
  const v1::RankAnnounced& claim = own->second.begin()->second.claim;
  if (claim.named_by().empty()) return {};
  std::set<std::uint32_t> ranks;
  std::vector<Jobs::const_iterator> parts;
  const auto add = [&](Jobs::const_iterator job) {
    parts.push_back(job);
    return std::ranges::all_of(
        job->second, [&](const auto& entry) { return ranks.insert(entry.first.first).second; });
  };
  add(own);
  const std::string launcher = id.name.substr(0, id.name.find('-') + 1);
  for (auto other = jobs_.lower_bound({id.user, launcher}); other != jobs_.end(); ++other) {
    if (other->first.user != id.user || !other->first.name.starts_with(launcher)) break;
    const v1::RankAnnounced& of_other = other->second.begin()->second.claim;
    if (other == own || of_other.size() != claim.size() || of_other.named_by().empty()) continue;
    if (parts.size() == kPartsMax || !add(other)) return {};
  }
  if (parts.size() < 2 || ranks.size() != claim.size()) return {};
  return parts;
}

// "localhost" on rank 0's node is the address that the others have for that node: ranks here that
// were given "localhost" take the others' job name.
void Rendezvous::JoinOtherHalf(const JobId& id) {
  const std::vector<Jobs::const_iterator> parts = PartsOf(id);
  if (parts.size() != 2) return;
  for (const std::size_t own : {0u, 1u}) {
    const std::string& named_by = parts[own]->second.begin()->second.claim.named_by();
    const std::string& of_others = parts[1 - own]->second.begin()->second.claim.named_by();
    const bool is_own = HasOwnAddress(named_by) && !HasOwnAddress(of_others) &&
                        parts[own]->second.begin()->first.first == 0;
    if (!is_own || !Differences(named_by, of_others).empty()) continue;
    const JobId from = parts[own]->first;
    const JobId to = parts[1 - own]->first;
    std::vector<Waiting> moved;
    for (const auto& [key, waiting] : parts[own]->second) {
      if (waiting.node == self_) moved.push_back(waiting);
    }
    for (Waiting& waiting : moved) {
      Withdraw(from, waiting.claim.attempt());
      Forget(from, waiting.claim.rank(), self_);
      waiting.claim.set_job(to.name);
      waiting.claim.set_attempt(next_attempt_++);
      deadlines_.insert(waiting.deadline_ns);
      outbox_.emplace_back(SendToAll{Announcement(waiting.claim)});
      jobs_[to][{waiting.claim.rank(), self_}] = std::move(waiting);
    }
    return FormIfComplete(to);
  }
}

std::string Rendezvous::DescribeOtherHalf(const JobId& id) const {
  std::set<std::string> differ;
  std::vector<std::string> texts;
  const std::vector<Jobs::const_iterator> parts = PartsOf(id);
  for (const Jobs::const_iterator& part : parts) {
    std::vector<std::string> ranks;
    for (const auto& [key, waiting] : part->second) ranks.push_back(absl::StrCat(key.first));
    texts.push_back(
        absl::StrCat("job ", part->first.name, " (rank ", ShortList(ranks, ", ", 40), ")"));
    differ.merge(Differences(parts[0]->second.begin()->second.claim.named_by(),
                             part->second.begin()->second.claim.named_by()));
  }
  if (differ.empty()) return {};
  return absl::StrCat(ShortList(texts, " and ", kPartsBytesMax), " look like parts of one job of ",
                      parts[0]->second.begin()->second.claim.size(),
                      " ranks: ", absl::StrJoin(differ, ", "), " must be the same on all, and ",
                      differ.size() == 1 ? "is" : "are",
                      " not; MLXCOMM_JOB=NAME on all ranks settles it");
}

std::string Rendezvous::DescribeOtherHalf(std::uint64_t session) const {
  for (const auto& [id, job] : jobs_) {
    for (const auto& [key, waiting] : job) {
      if (waiting.node == self_ && waiting.session == session) return DescribeOtherHalf(id);
    }
  }
  return {};
}

std::string Rendezvous::DescribeLateness(const JobId& id, const Job& job,
                                         const Waiting& waiting) const {
  const std::string missing = DescribeMissing(id, job, waiting.claim.size(), /*have_left=*/false);
  const std::string left = DescribeMissing(id, job, waiting.claim.size(), /*have_left=*/true);
  const std::string after = absl::StrCat("job ", id.name, ": after ",
                                         static_cast<double>(waiting.timeout_ns) / 1e9, " s ");
  if (missing.empty() && !left.empty()) {
    return absl::StrCat(
        after, left, " of ", waiting.claim.size(),
        " had joined, but gave up or exited: start all ranks again, at about the same time");
  }
  if (missing.empty()) {
    return absl::StrCat(after, "all ", waiting.claim.size(), " ranks are known here, but node ",
                        NodeName(job.begin()->second.node),
                        " (rank 0) has not formed the job: check its log and the links between "
                        "the nodes (mlxcommctl status)");
  }
  const std::string other_half = DescribeOtherHalf(id);
  if (!other_half.empty()) {
    return absl::StrCat(after, missing, " of ", waiting.claim.size(),
                        " had not joined: ", other_half);
  }
  return absl::StrCat(after, missing, " of ", waiting.claim.size(), " had not joined",
                      left.empty() ? "" : absl::StrCat(" (", left, " had, but gave up or exited)"),
                      ": are they started, with this job name",
                      id.user.empty() ? "" : absl::StrCat(", as user ", id.user),
                      ", and are their daemons linked (mlxcommctl status)?");
}

void Rendezvous::OnTime(std::uint64_t now_ns) {
  std::vector<AttachRefused> late;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [key, waiting] : job) {
      if (waiting.node != self_ || waiting.deadline_ns > now_ns) continue;
      late.push_back(
          {waiting.session,
           {FailureCode::kDeadlineExceeded, kNoRank, DescribeLateness(id, job, waiting)}});
    }
  }
  for (const AttachRefused& one : late) Refuse(one.session, one.failure);
}

std::vector<Rendezvous::Waiting> Rendezvous::AllWaiting() const {
  std::vector<Waiting> all;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [key, waiting] : job) all.push_back(waiting);
  }
  return all;
}

}  // namespace mlxcomm::jobs

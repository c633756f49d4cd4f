#include "daemon/jobs/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::jobs {

using collective::Group;
using collective::LinkCosts;
using collective::Member;

namespace {

// "train/rows"; splits without a name get their number.
std::string NameOf(const Group& parent, const SplitCall& call) {
  return absl::StrCat(parent.name(), "/",
                      call.name.empty() ? absl::StrCat(call.number) : call.name);
}

std::vector<Member> MembersOf(const Group& parent, const std::vector<std::uint32_t>& ranks) {
  std::vector<Member> members;
  for (const std::uint32_t rank : ranks) members.push_back(parent.layout().member(rank));
  return members;
}

}  // namespace

Failure Membership::RoomFor(const std::string& user) const {
  const auto exhausted = [](std::string message) {
    return Failure{FailureCode::kResourceExhausted, kNoRank, std::move(message)};
  };
  if (groups_.size() >= kGroupsMax) {
    return exhausted(absl::StrCat("this node has ", kGroupsMax,
                                  " groups, which is the limit: "
                                  "close groups that are no longer used"));
  }
  if (user.empty() || group_count(user) < groups_per_user_max_) return {};
  return exhausted(absl::StrCat("user ", user, " has ", group_count(user),
                                " groups on this node, "
                                "the limit: close groups that are no longer used, or raise "
                                "clients { groups_per_user_max } in the daemon's configuration"));
}

bool Membership::Add(std::uint64_t group, const std::string& name, GroupOrigin origin,
                     std::vector<Member> members, const LinkCosts& costs) {
  if (!RoomFor(origin.job.user).ok()) return false;
  if (!collectives_.AddGroup(group, name, std::move(members), costs)) return false;
  ++groups_of_[origin.job.user];
  Entry& entry = groups_[group];
  entry.origin = std::move(origin);
  entry.holders.assign(collectives_.Find(group)->layout().local_ranks().size(), 0);
  return true;
}

// Gives a local rank's place to the session; 0: the rank is gone.
void Membership::Seat(std::uint64_t group, std::uint32_t rank, SessionId session, bool joined,
                      const std::string& why_not, std::uint64_t now_ns) {
  Group& made = *collectives_.Find(group);
  const int local = made.layout().LocalIndexOf(rank);
  if (local < 0) return;
  if (session == 0) return made.OnLocalRankGone(rank, why_not, now_ns);
  Entry& entry = groups_[group];
  entry.holders[static_cast<std::size_t>(local)] = session;
  ++entry.places;
  sessions_[session][group] = {rank, joined};
}

bool Membership::AddWorld(std::uint64_t group, const JobId& job, std::vector<Member> members,
                          const std::vector<SessionId>& sessions, const LinkCosts& costs,
                          std::uint64_t now_ns) {
  GroupOrigin origin{.job = job, .size_at_start = static_cast<std::uint32_t>(members.size())};
  if (members.size() != sessions.size() ||
      !Add(group, job.name, std::move(origin), std::move(members), costs)) {
    return false;
  }
  for (std::uint32_t rank = 0; rank < sessions.size(); ++rank) {
    Seat(group, rank, sessions[rank], true, "its process exited while the job was forming", now_ns);
  }
  if (groups_[group].places == 0) left_.push_back(group);
  return true;
}

bool Membership::AddShrunk(std::uint64_t group, std::uint64_t parent,
                           const std::vector<std::uint32_t>& ranks,
                           const std::vector<SessionId>& sessions, std::uint64_t now_ns) {
  const Group* const old = collectives_.Find(parent);
  const auto entry = groups_.find(parent);
  if (old == nullptr || entry == groups_.end()) return false;
  GroupOrigin origin = entry->second.origin;
  origin.kind = GroupKind::kShrunk;
  origin.parent = parent;
  origin.parent_ranks = ranks;
  ++origin.shrinks;
  std::string name = old->name();
  if (name.size() < kFullNameBytesMax) name += "'";
  if (!Add(group, name, std::move(origin), MembersOf(*old, ranks), old->costs())) return false;
  for (std::uint32_t rank = 0; rank < sessions.size(); ++rank) {
    Seat(group, rank, sessions[rank], true, "it exited, or gave up, while the group was shrinking",
         now_ns);
  }
  if (groups_[group].places == 0) left_.push_back(group);
  return true;
}

Failure Membership::Split(SessionId session, const SplitCall& call, std::uint64_t now_ns) {
  Failure failure = CheckSplit(session, call);
  if (failure.ok()) {
    failure =
        groups_.contains(call.group) ? JoinExisting(session, call) : Make(session, call, now_ns);
  }
  if (failure.ok()) return failure;
  // The others need not wait for a process that was refused.
  const auto places = sessions_.find(session);
  if (places != sessions_.end()) {
    const auto place = places->second.find(call.group);
    if (place != places->second.end() && !place->second.joined) {
      Leave(session, call.group, {}, now_ns);
    }
  }
  return failure;
}

Failure Membership::CheckSplit(SessionId session, const SplitCall& call) const {
  const std::uint32_t* const rank = RankOf(session, call.parent);
  if (rank == nullptr) {
    return Invalid(
        absl::StrCat("parent: group ", call.parent, " is not one of this process's groups"));
  }
  Group& parent = *collectives_.Find(call.parent);
  if (parent.failed()) return parent.failure();
  if (call.name.size() > kNameBytesMax || !IsPlainText(call.name)) {
    return Invalid(absl::StrCat("name: expected up to ", kNameBytesMax,
                                " bytes of UTF-8 without control characters"));
  }
  if (NameOf(parent, call).size() > kFullNameBytesMax) {
    return Invalid(absl::StrCat("name: with its parents' names (", parent.name(),
                                ") expected at most ", kFullNameBytesMax,
                                " bytes: split less deeply, or use shorter names"));
  }
  if (sessions_.at(session).size() >= kPlacesMax && !sessions_.at(session).contains(call.group)) {
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("this process is in ", kPlacesMax,
                         " groups, which is the limit: close "
                         "groups that are no longer used")};
  }
  return CheckRanks(call, *rank, parent.layout().rank_count());
}

Failure Membership::CheckRanks(const SplitCall& call, std::uint32_t own_rank,
                               std::uint32_t size) const {
  if (call.ranks.empty() || call.ranks.size() > size) {
    return Invalid(
        absl::StrCat("ranks: expected 1 to ", size, " of them, got ", call.ranks.size()));
  }
  std::vector<bool> seen(size, false);
  for (const std::uint32_t rank : call.ranks) {
    if (rank >= size) {
      return Invalid(
          absl::StrCat("ranks: expected ranks of the parent, below ", size, "; got ", rank));
    }
    if (seen[rank]) return Invalid(absl::StrCat("ranks: rank ", rank, " is named twice"));
    seen[rank] = true;
  }
  if (!seen[own_rank]) {
    return Invalid(absl::StrCat("ranks: the caller's own, rank ", own_rank,
                                " of the parent, is not among them"));
  }
  return {};
}

Failure Membership::JoinExisting(SessionId session, const SplitCall& call) {
  const GroupOrigin& origin = groups_[call.group].origin;
  if (origin.kind != GroupKind::kSplit || origin.parent != call.parent ||
      origin.parent_ranks != call.ranks) {
    return {FailureCode::kInternal, kNoRank,
            absl::StrCat("group id ", call.group, " is taken: split again")};
  }
  Places& places = sessions_[session];
  const auto place = places.find(call.group);
  if (place == places.end()) {
    return Invalid(absl::StrCat("number: this process has already left split ", call.number,
                                " of this group"));
  }
  if (place->second.joined) {
    return {FailureCode::kAlreadyExists, kNoRank,
            absl::StrCat("number: this process has already joined split ", call.number,
                         " of this group")};
  }
  place->second.joined = true;
  return {};
}

Failure Membership::Make(SessionId session, const SplitCall& call, std::uint64_t now_ns) {
  const Failure room = RoomFor(groups_[call.parent].origin.job.user);
  if (!room.ok()) return room;
  const Group& parent = *collectives_.Find(call.parent);
  GroupOrigin origin{.kind = GroupKind::kSplit,
                     .job = groups_[call.parent].origin.job,
                     .parent = call.parent,
                     .parent_ranks = call.ranks,
                     .is_main = false};
  if (!Add(call.group, NameOf(parent, call), std::move(origin), MembersOf(parent, call.ranks),
           parent.costs())) {
    return {FailureCode::kInternal, kNoRank,
            absl::StrCat("group id ", call.group, " is taken: split again")};
  }
  for (std::uint32_t rank = 0; rank < call.ranks.size(); ++rank) {
    const SessionId holder = HolderOf(call.parent, call.ranks[rank]);
    Seat(call.group, rank, holder, holder == session,
         absl::StrCat("it had left group ", parent.name(), " before this one was made"), now_ns);
  }
  return {};
}

void Membership::Leave(SessionId session, std::uint64_t group, const Departure& departure,
                       std::uint64_t now_ns) {
  const auto places = sessions_.find(session);
  if (places == sessions_.end()) return;
  const auto place = places->second.find(group);
  if (place == places->second.end()) return;
  const std::uint32_t rank = place->second.rank;
  places->second.erase(place);
  if (places->second.empty()) sessions_.erase(places);
  Entry& entry = groups_[group];
  Group& left = *collectives_.Find(group);
  entry.holders[static_cast<std::size_t>(left.layout().LocalIndexOf(rank))] = 0;
  if (--entry.places == 0) left_.push_back(group);
  if (departure.in_order) {
    left.OnLocalRankDetached(rank, now_ns);
  } else {
    left.OnLocalRankGone(rank, departure.why, now_ns);
  }
}

std::vector<std::uint64_t> Membership::Release(SessionId session, std::uint64_t group,
                                               std::uint64_t now_ns) {
  std::vector<std::uint64_t> released;
  if (RankOf(session, group) == nullptr) return released;
  released.push_back(group);
  // Includes groups split from these that the session has not asked for yet.
  for (std::size_t i = 0; i < released.size(); ++i) {
    for (const auto& [other, place] : sessions_[session]) {
      if (!place.joined && groups_[other].origin.parent == released[i]) released.push_back(other);
    }
  }
  for (const std::uint64_t left : released) Leave(session, left, {}, now_ns);
  return released;
}

std::vector<std::uint64_t> Membership::LeaveEverything(SessionId session,
                                                       const Departure& departure,
                                                       std::uint64_t now_ns) {
  std::vector<std::uint64_t> all;
  const auto places = sessions_.find(session);
  if (places == sessions_.end()) return all;
  for (const auto& [group, place] : places->second) all.push_back(group);
  for (const std::uint64_t group : all) Leave(session, group, departure, now_ns);
  return all;
}

void Membership::SpreadLoss(std::uint64_t group, std::uint64_t now_ns) {
  const Group* const parent = collectives_.Find(group);
  if (parent == nullptr || !parent->failed()) return;
  const Failure& cause = parent->failure();
  if (cause.code != FailureCode::kRankLost || cause.rank < 0) return;
  const auto lost = static_cast<std::uint32_t>(cause.rank);
  // A rank that left the parent in an orderly way may still be in the others.
  if (lost >= parent->layout().rank_count() || parent->RankIsGone(lost)) return;
  std::vector<std::uint64_t> failed;
  for (const auto& [id, entry] : groups_) {
    if (entry.origin.kind != GroupKind::kSplit || entry.origin.parent != group) continue;
    const auto& ranks = entry.origin.parent_ranks;
    const auto found = std::ranges::find(ranks, lost);
    Group& child = *collectives_.Find(id);
    if (found == ranks.end() || child.failed()) continue;
    const auto rank = static_cast<std::uint32_t>(found - ranks.begin());
    child.Fail({FailureCode::kRankLost, static_cast<std::int32_t>(rank),
                absl::StrCat(child.layout().Describe(rank), " of group ", child.name(),
                             " is lost: ", cause.message)},
               {.group = id}, now_ns);
    failed.push_back(id);
  }
  for (const std::uint64_t id : failed) SpreadLoss(id, now_ns);
}

std::vector<std::uint64_t> Membership::RemoveLeft() {
  std::vector<std::uint64_t> removed;
  std::erase_if(left_, [&](std::uint64_t group) {
    if (!collectives_.RemoveIfOver(group)) return false;
    const auto entry = groups_.find(group);
    const auto of_user = groups_of_.find(entry->second.origin.job.user);
    if (--of_user->second == 0) groups_of_.erase(of_user);
    groups_.erase(entry);
    removed.push_back(group);
    return true;
  });
  return removed;
}

const std::uint32_t* Membership::RankOf(SessionId session, std::uint64_t group) const {
  const auto places = sessions_.find(session);
  if (places == sessions_.end()) return nullptr;
  const auto place = places->second.find(group);
  return place == places->second.end() || !place->second.joined ? nullptr : &place->second.rank;
}

std::optional<Membership::JobRank> Membership::JobRankOf(SessionId session) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return std::nullopt;
  for (const auto& [group, place] : found->second) {
    const GroupOrigin* const origin = OriginOf(group);
    if (origin != nullptr && origin->is_main) return JobRank{origin->job, place.rank};
  }
  return std::nullopt;
}

SessionId Membership::HolderOf(std::uint64_t group, std::uint32_t rank) const {
  const auto entry = groups_.find(group);
  if (entry == groups_.end()) return 0;
  const int local = collectives_.Find(group)->layout().LocalIndexOf(rank);
  return local < 0 ? 0 : entry->second.holders[static_cast<std::size_t>(local)];
}

}  // namespace mlxcomm::jobs

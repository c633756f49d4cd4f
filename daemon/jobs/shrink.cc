#include "daemon/jobs/shrink.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::jobs {
namespace {

bool Contains(const std::vector<NodeId>& nodes, const NodeId& node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

}  // namespace

Shrink::Round* Shrink::RoundOf(std::uint64_t group) {
  if (const auto found = rounds_.find(group); found != rounds_.end()) return &found->second;
  Round round;
  if (!groups_.Look(group, round.view)) return nullptr;
  round.words.assign(round.view.ranks.size(), Word::kNothing);
  for (std::size_t rank = 0; rank < round.words.size(); ++rank) {
    const NodeId& node = round.view.ranks[rank].node;
    if (node != self_ && !groups_.IsReachable(node)) round.words[rank] = Word::kGone;
  }
  v1::ShrinkState nothing;
  nothing.set_group(group);
  round.reported = nothing.SerializeAsString();
  return &rounds_.emplace(group, std::move(round)).first->second;
}

// Updates the view of the group, and the descriptions of local ranks.
bool Shrink::Refresh(std::uint64_t group, Round& round) const {
  if (!groups_.Look(group, round.view)) return false;
  for (std::uint32_t rank = 0; rank < round.words.size(); ++rank) {
    const GroupView::Rank& seen = round.view.ranks[rank];
    if (seen.node != self_) continue;
    round.words[rank] = seen.gone                     ? Word::kGone
                        : round.askers.contains(rank) ? Word::kAsked
                                                      : Word::kNothing;
  }
  return true;
}

v1::ShrinkState Shrink::StateOf(std::uint64_t group, const Round& round) const {
  v1::ShrinkState state;
  state.set_group(group);
  for (std::uint32_t rank = 0; rank < round.words.size(); ++rank) {
    if (round.view.ranks[rank].node != self_) continue;
    if (round.words[rank] == Word::kAsked) state.add_asked(rank);
    if (round.words[rank] == Word::kGone) state.add_gone(rank);
  }
  return state;
}

void Shrink::SendState(const NodeId& node, const v1::ShrinkState& state) {
  v1::PeerMessage message;
  *message.mutable_shrink_state() = state;
  outbox_.emplace_back(SendTo{node, message});
}

// Sends the state of this node's ranks to the others if it has changed.
void Shrink::SendState(std::uint64_t group, Round& round) {
  if (!Refresh(group, round)) return;
  const v1::ShrinkState state = StateOf(group, round);
  std::string reported = state.SerializeAsString();
  if (reported == round.reported) return;
  round.reported = std::move(reported);
  std::set<NodeId> nodes;
  for (const GroupView::Rank& rank : round.view.ranks) nodes.insert(rank.node);
  nodes.erase(self_);
  for (const NodeId& node : nodes) SendState(node, state);
}

void Shrink::Ask(std::uint64_t session, std::uint64_t group, std::uint32_t rank,
                 std::uint64_t timeout_ns, std::uint64_t now_ns) {
  Round* const round = RoundOf(group);
  if (round == nullptr || !Refresh(group, *round) || !round->view.failed) {
    return Refuse(session, group,
                  Invalid("group: it has not failed; only a group that has failed can shrink"));
  }
  round->askers[rank] = {session, now_ns + std::min(timeout_ns, kNever - 1 - now_ns), timeout_ns,
                         now_ns};
  SendState(group, *round);
  Decide(group);
}

void Shrink::Withdraw(std::uint64_t session, std::uint64_t group) {
  const auto is_its = [session](const auto& entry) { return entry.second.session == session; };
  if (const auto round = rounds_.find(group); round != rounds_.end()) {
    std::erase_if(round->second.askers, is_its);
    SendState(group, round->second);
  }
  for (auto& [id, forming] : forming_) {
    if (forming.group != group) continue;
    std::erase_if(forming.askers, is_its);
    const auto place = std::ranges::find_if(
        forming.sessions, [&](const auto& entry) { return entry.second == session; });
    if (place == forming.sessions.end()) continue;
    forming.sessions.erase(place);
    outbox_.emplace_back(PlaceGivenUp{session, id});
  }
  std::erase_if(forming_, [](const auto& entry) {
    return entry.second.in_doubt && entry.second.sessions.empty();
  });
}

void Shrink::OnChanged(std::uint64_t group) {
  Round* const round = RoundOf(group);
  if (round == nullptr) return;
  SendState(group, *round);
  Decide(group);
}

void Shrink::OnGroupRemoved(std::uint64_t group) {
  rounds_.erase(group);
  ready_.erase(group);
  const auto forming = forming_.find(group);
  // The others wait for the former, even if its own ranks are gone.
  if (forming != forming_.end() && forming->second.former != self_) forming_.erase(forming);
}

void Shrink::OnNodeUp(const NodeId& node) {
  for (auto& [group, round] : rounds_) {
    if (!Refresh(group, round)) continue;
    const bool member =
        std::ranges::any_of(round.view.ranks, [&](const auto& rank) { return rank.node == node; });
    const v1::ShrinkState state = StateOf(group, round);
    if (member && state.asked_size() > 0) SendState(node, state);
  }
}

void Shrink::OnNodeLost(const NodeId& node) {
  std::vector<std::uint64_t> groups;
  for (auto& [group, round] : rounds_) {
    groups.push_back(group);
    for (std::size_t rank = 0; rank < round.words.size(); ++rank) {
      if (round.view.ranks[rank].node == node) round.words[rank] = Word::kGone;
    }
  }
  std::vector<std::uint64_t> formed_here;
  for (auto& [id, forming] : forming_) {
    if (std::erase(forming.awaited, node) > 0) formed_here.push_back(id);
    if (forming.former == node && !forming.in_doubt) Doubt(id, forming);
  }
  for (const std::uint64_t id : formed_here) FinishIfJoined(id);
  for (const std::uint64_t group : groups) {
    SendState(group, rounds_.at(group));
    Decide(group);
  }
}

bool Shrink::OnState(const NodeId& node, const v1::ShrinkState& state) {
  const std::uint64_t group = state.group();
  NoteReady(node, state);
  Round* const round = state.unknown() && !rounds_.contains(group) ? nullptr : RoundOf(group);
  if (round == nullptr) {
    if (state.unknown()) return true;
    v1::ShrinkState answer;
    answer.set_group(group);
    answer.set_unknown(true);
    answer.set_doubt(state.doubt());
    answer.set_answers_doubt(state.doubt() != 0);
    SendState(node, answer);
    return true;
  }
  bool fine = true;
  bool member = false;
  for (std::size_t rank = 0; rank < round->words.size(); ++rank) {
    if (round->view.ranks[rank].node != node) continue;
    member = true;
    round->words[rank] = state.unknown() ? Word::kGone : Word::kNothing;
  }
  if (!member) return false;
  const auto note = [&](const auto& ranks, Word word) {
    for (const std::uint32_t rank : ranks) {
      // A node speaks for its own ranks only.
      const bool its_own = rank < round->words.size() && round->view.ranks[rank].node == node;
      fine = fine && its_own;
      if (its_own) round->words[rank] = word;
    }
  };
  note(state.asked(), Word::kAsked);
  note(state.gone(), Word::kGone);
  SendState(group, *round);
  if (state.doubt() != 0) AnswerDoubt(node, state);
  Decide(group);
  return fine;
}

// Uses a state of one group as news about another that is in doubt.
void Shrink::NoteReady(const NodeId& node, const v1::ShrinkState& state) {
  // A rank asks only about a group that was ready for it.
  const auto doubtful = forming_.find(state.group());
  if (state.asked_size() > 0 && doubtful != forming_.end() && doubtful->second.in_doubt &&
      Contains(doubtful->second.nodes, node)) {
    Settle(state.group());
  }
  if (state.doubt() == 0 || state.answers_doubt()) return;
  const auto ready = ready_.find(state.doubt());
  if (ready != ready_.end() && Contains(ready->second, node)) {
    SendReady(node, state.doubt());
  }
}

void Shrink::AnswerDoubt(const NodeId& node, const v1::ShrinkState& state) {
  const auto doubtful = forming_.find(state.doubt());
  if (doubtful != forming_.end() && Contains(doubtful->second.nodes, node) &&
      doubtful->second.former != self_) {
    // After this answer, the node must ignore a late ShrinkReady from the former.
    if (!doubtful->second.in_doubt) Doubt(doubtful->first, doubtful->second);
    // A node that is in doubt too has not received ShrinkReady.
    std::erase(doubtful->second.awaited, node);
  }
  if (state.answers_doubt()) return;
  v1::ShrinkState answer = StateOf(state.group(), rounds_.at(state.group()));
  answer.set_doubt(state.doubt());
  answer.set_answers_doubt(true);
  SendState(node, answer);
}

bool Shrink::IsInDoubt(std::uint64_t group) const {
  return std::ranges::any_of(forming_, [group](const auto& entry) {
    return entry.second.group == group && entry.second.in_doubt && !entry.second.awaited.empty();
  });
}

void Shrink::Decide(std::uint64_t group) {
  const auto found = rounds_.find(group);
  if (found == rounds_.end() || found->second.askers.empty() || IsInDoubt(group)) return;
  Round& round = found->second;
  if (!Refresh(group, round) || !round.view.failed) return;
  std::vector<std::uint32_t> left;
  for (std::uint32_t rank = 0; rank < round.words.size(); ++rank) {
    if (round.words[rank] == Word::kNothing) return;
    if (round.words[rank] == Word::kAsked) left.push_back(rank);
  }
  if (!left.empty() && round.view.ranks[left.front()].node == self_) Form(group, round, left);
}

void Shrink::Form(std::uint64_t group, Round& round, const std::vector<std::uint32_t>& ranks) {
  const std::uint64_t new_group = groups_.NewGroupId();
  if (!BeginForming(group, new_group, self_, round, ranks)) {
    const Askers askers = std::exchange(round.askers, {});
    SendState(group, round);
    for (const auto& [rank, asker] : askers) {
      Refuse(asker.session, group,
             {FailureCode::kResourceExhausted, kNoRank,
              "this node has too many groups: close unused ones, then shrink "
              "again"});
    }
    return;
  }
  v1::PeerMessage message;
  v1::ShrinkFormed& formed = *message.mutable_shrink_formed();
  formed.set_group(group);
  formed.set_new_group(new_group);
  for (const std::uint32_t rank : ranks) formed.add_ranks(rank);
  Forming& forming = forming_.at(new_group);
  forming.awaited = forming.nodes;
  for (const NodeId& node : forming.nodes) outbox_.emplace_back(SendTo{node, message});
  SendState(group, round);
  FinishIfJoined(new_group);
}

bool Shrink::BeginForming(std::uint64_t group, std::uint64_t new_group, const NodeId& former,
                          Round& round, const std::vector<std::uint32_t>& ranks) {
  Forming forming;
  forming.group = group;
  forming.former = former;
  forming.first_rank = ranks.front();
  std::vector<std::uint64_t> sessions;
  for (const std::uint32_t rank : ranks) {
    const NodeId& node = round.view.ranks[rank].node;
    if (node != self_ && !Contains(forming.nodes, node)) {
      forming.nodes.push_back(node);
      forming.first_ranks.emplace_back(static_cast<std::uint32_t>(sessions.size()),
                                       round.view.ranks[rank].description);
    }
    const auto asker = round.askers.find(rank);
    sessions.push_back(asker == round.askers.end() ? 0 : asker->second.session);
    if (asker == round.askers.end()) continue;
    forming.askers.insert(*asker);
    forming.sessions[rank] = asker->second.session;
  }
  if (forming_.contains(new_group) || !groups_.MakeShrunk(group, new_group, ranks, sessions)) {
    return false;
  }
  AbandonDoubtful(group);
  for (const auto& [rank, asker] : forming.askers) round.askers.erase(rank);
  forming_[new_group] = std::move(forming);
  return true;
}

// Another group was formed, which settles the doubt.
void Shrink::AbandonDoubtful(std::uint64_t group) {
  std::erase_if(forming_, [&](const auto& entry) {
    const Forming& forming = entry.second;
    if (forming.group != group || !forming.in_doubt) return false;
    for (const auto& [rank, session] : forming.sessions)
      outbox_.emplace_back(PlaceGivenUp{session, entry.first});
    return true;
  });
}

bool Shrink::IsForItsSenderToForm(const NodeId& node, const std::vector<std::uint32_t>& ranks,
                                  const Round& round) const {
  if (ranks.empty() || ranks.size() > round.words.size()) return false;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] >= round.words.size() || (i > 0 && ranks[i] <= ranks[i - 1])) return false;
  }
  return round.view.ranks[ranks[0]].node == node;
}

bool Shrink::OnFormed(const NodeId& node, const v1::ShrinkFormed& formed) {
  Round* const round = RoundOf(formed.group());
  if (round == nullptr || !Refresh(formed.group(), *round)) {
    SendJoined(node, formed.new_group(), "its ranks have left the failed group");
    return true;
  }
  const std::vector<std::uint32_t> ranks(formed.ranks().begin(), formed.ranks().end());
  if (!IsForItsSenderToForm(node, ranks, *round)) return false;
  // A later former considers more ranks gone. Ranks that asked it have found the earlier former
  // lost, and no node that is ready.
  for (auto& [id, forming] : forming_) {
    if (forming.group != formed.group() || forming.first_rank >= ranks.front() ||
        forming.in_doubt || forming.former == self_) {
      continue;
    }
    forming.in_doubt = true;
    round->askers.merge(forming.askers);
  }
  const bool asked =
      std::ranges::any_of(ranks, [&](std::uint32_t rank) { return round->askers.contains(rank); });
  if (!asked) {
    SendJoined(node, formed.new_group(), "its ranks no longer ask to shrink");
  } else if (!BeginForming(formed.group(), formed.new_group(), node, *round, ranks)) {
    SendJoined(node, formed.new_group(), "it has too many groups");
  } else {
    RefuseLeftOut(formed.group(), *round, node);
    // First report that these ranks no longer ask, then that the group may be used.
    SendState(formed.group(), *round);
    SendJoined(node, formed.new_group(), {});
  }
  return true;
}

// The former considered these local ranks gone, because it had lost the route to this node.
void Shrink::RefuseLeftOut(std::uint64_t group, Round& round, const NodeId& former) {
  const Askers left_out = std::exchange(round.askers, {});
  std::string who = "the others";
  for (const GroupView::Rank& rank : round.view.ranks) {
    if (rank.node == former) {
      who = absl::StrCat("the ranks with ", rank.description);
      break;
    }
  }
  for (const auto& [rank, asker] : left_out) {
    Refuse(asker.session, group,
           {FailureCode::kRankLost, static_cast<std::int32_t>(rank),
            absl::StrCat(who, " have shrunk group ", round.view.name, " without rank ", rank,
                         ", because they had lost the route to it: start it again")});
  }
}

void Shrink::SendJoined(const NodeId& node, std::uint64_t new_group, const std::string& refusal) {
  v1::PeerMessage message;
  message.mutable_shrink_joined()->set_new_group(new_group);
  message.mutable_shrink_joined()->set_refusal(refusal);
  outbox_.emplace_back(SendTo{node, message});
}

void Shrink::SendReady(const NodeId& node, std::uint64_t new_group) {
  v1::PeerMessage message;
  message.mutable_shrink_ready()->set_new_group(new_group);
  outbox_.emplace_back(SendTo{node, message});
}

void Shrink::OnJoined(const NodeId& node, const v1::ShrinkJoined& joined) {
  const auto found = forming_.find(joined.new_group());
  if (found == forming_.end() || found->second.former != self_) return;
  if (std::erase(found->second.awaited, node) == 0) return;
  if (!joined.refusal().empty()) {
    const std::vector<NodeId>& nodes = found->second.nodes;
    const auto at = std::ranges::find(nodes, node) - nodes.begin();
    const auto& [rank, description] = found->second.first_ranks[static_cast<std::size_t>(at)];
    outbox_.emplace_back(
        GroupFailed{joined.new_group(),
                    {FailureCode::kRankLost, static_cast<std::int32_t>(rank),
                     absl::StrCat(description, " of the failed group cannot join the new one: ",
                                  std::string(Utf8Prefix(joined.refusal(), kRefusalBytesMax)),
                                  ". Shrink again.")}});
  }
  FinishIfJoined(joined.new_group());
}

void Shrink::FinishIfJoined(std::uint64_t new_group) {
  const Forming& forming = forming_.at(new_group);
  if (forming.former != self_ || !forming.awaited.empty()) return;
  for (const NodeId& node : forming.nodes) SendReady(node, new_group);
  Settle(new_group);
}

void Shrink::OnReady(const NodeId& node, const v1::ShrinkReady& ready) {
  const auto found = forming_.find(ready.new_group());
  if (found == forming_.end()) return;
  const Forming& forming = found->second;
  if (forming.in_doubt ? forming.former != node && Contains(forming.nodes, node)
                       : forming.former == node) {
    Settle(ready.new_group());
  }
}

// The new group exists everywhere: its ranks here may begin.
void Shrink::Settle(std::uint64_t new_group) {
  const auto found = forming_.find(new_group);
  Forming forming = std::move(found->second);
  forming_.erase(found);
  const auto round = rounds_.find(forming.group);
  if (round != rounds_.end()) {  // Ranks may have asked again while it was in doubt.
    for (const auto& [rank, session] : forming.sessions) {
      const auto asker = round->second.askers.find(rank);
      if (asker == round->second.askers.end() || !forming.in_doubt) continue;
      forming.askers.insert(*asker);
      round->second.askers.erase(asker);
    }
    SendState(forming.group, round->second);
  }
  GroupView view;
  if (groups_.Look(new_group, view)) ready_[new_group] = forming.nodes;
  for (const auto& [rank, asker] : forming.askers) {
    outbox_.emplace_back(ShrinkReady{asker.session, forming.group, new_group});
  }
}

// The former is lost: other nodes may have received ShrinkReady, or not.
void Shrink::Doubt(std::uint64_t new_group, Forming& forming) {
  forming.in_doubt = true;
  Round* const round = RoundOf(forming.group);
  if (round != nullptr) {
    round->askers.merge(forming.askers);
  }
  for (const auto& [rank, asker] : forming.askers) {
    Refuse(asker.session, forming.group,
           {FailureCode::kRankLost, kNoRank, "the node that formed the new group is lost"});
  }
  forming.askers.clear();
  if (round == nullptr || !Refresh(forming.group, *round)) return;
  v1::ShrinkState state = StateOf(forming.group, *round);
  state.set_doubt(new_group);
  for (const NodeId& node : forming.nodes) {
    if (node == forming.former || !groups_.IsReachable(node)) continue;
    forming.awaited.push_back(node);
    SendState(node, state);
  }
}

Failure Shrink::LateFailure(std::uint64_t group, const Asker& asker) const {
  const auto found = rounds_.find(group);
  Failure failure{FailureCode::kDeadlineExceeded, kNoRank, {}};
  std::vector<std::string> missing;
  std::string name;
  if (found != rounds_.end()) {
    const Round& round = found->second;
    name = round.view.name;
    for (std::uint32_t rank = 0; rank < round.words.size() && round.askers.size() > 0; ++rank) {
      if (round.words[rank] != Word::kNothing) continue;
      if (missing.empty()) failure.rank = static_cast<std::int32_t>(rank);
      missing.push_back(round.view.ranks[rank].description);
    }
  }
  failure.message = absl::StrCat(
      "group ", name, " has not shrunk within ", static_cast<double>(asker.timeout_ns) / 1e9,
      " s: ",
      missing.empty()
          ? "all ranks have called shrink, but not every node has answered: "
            "check their daemons (mlxcommctl status)"
          : absl::StrCat(ShortList(missing, ", ", 300), missing.size() == 1 ? " has" : " have",
                         " neither called shrink nor exited: every remaining rank "
                         "must call shrink, and the others must exit"));
  return failure;
}

void Shrink::OnTime(std::uint64_t now_ns) {
  struct Late {
    std::uint64_t group;
    Asker asker;
    Failure failure;
  };
  std::vector<Late> late;
  for (const auto& [group, round] : rounds_) {
    for (const auto& [rank, asker] : round.askers) {
      if (asker.deadline_ns <= now_ns) late.push_back({group, asker, LateFailure(group, asker)});
    }
  }
  for (const auto& [id, forming] : forming_) {
    for (const auto& [rank, asker] : forming.askers) {
      if (asker.deadline_ns > now_ns) continue;
      late.push_back({forming.group, asker, LateFailure(forming.group, asker)});
    }
  }
  for (const Late& one : late) {
    Withdraw(one.asker.session, one.group);
    Refuse(one.asker.session, one.group, one.failure);
  }
}

std::uint64_t Shrink::NextDeadline() const {
  std::uint64_t next = kNever;
  for (const auto& [group, round] : rounds_) {
    for (const auto& [rank, asker] : round.askers) next = std::min(next, asker.deadline_ns);
  }
  for (const auto& [id, forming] : forming_) {
    for (const auto& [rank, asker] : forming.askers) next = std::min(next, asker.deadline_ns);
  }
  return next;
}

bool Shrink::Describe(std::uint64_t group, std::uint64_t now_ns, v1::WaitStatus& wait) const {
  const auto found = rounds_.find(group);
  if (found == rounds_.end() || found->second.askers.empty()) return false;
  std::uint64_t since_ns = now_ns;
  for (const auto& [rank, asker] : found->second.askers) {
    wait.add_waiting(rank);
    since_ns = std::min(since_ns, asker.since_ns);
  }
  const std::vector<Word>& words = found->second.words;
  for (std::uint32_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank] == Word::kNothing) wait.add_awaited(rank);
  }
  wait.set_operation("shrink");
  wait.set_age_ms((now_ns - since_ns) / 1'000'000);
  return wait.awaited_size() > 0;
}

}  // namespace mlxcomm::jobs

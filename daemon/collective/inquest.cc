#include "daemon/collective/inquest.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::collective {
namespace {

// MLX is lazy: `if rank == 0: print(loss.item())` is an operation on one rank only.
constexpr absl::string_view kForgottenRankHint =
    " Was an earlier result evaluated on one rank only? MLXCOMM_CHECK=order names it.";

}  // namespace

std::string DescribeKey(const OperationKey& key) {
  if (!key.point_to_point()) return absl::StrCat("operation ", key.number);
  return absl::StrCat("message ", key.number, " from rank ", key.source_rank, " to rank ",
                      key.destination_rank,
                      key.tag == 0 ? std::string() : absl::StrCat(" with tag ", key.tag));
}

std::string DescribeRanks(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kNamed = 8;  // Ranks, or ranges of them.
  std::string text;
  std::size_t named = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (named++ == kNamed) return absl::StrCat(text, " and ", ranks.size() - i, " more");
    absl::StrAppend(&text, text.empty() ? "" : ", ", ranks[i]);
    if (end - i > 1) absl::StrAppend(&text, end - i == 2 ? ", " : "-", ranks[end - 1]);
    i = end;
  }
  return text;
}

void Inquest::Open(const Failure& cause, const OperationKey& operation, const RankCalls& own_calls,
                   std::uint64_t now_ns, std::vector<std::uint32_t> awaited) {
  state_ = State::kOpen;
  verdict_ = cause;
  operation_ = operation;
  awaited_ = std::move(awaited);
  known_.assign(layout_.rank_count(), Known{});
  reported_.assign(layout_.node_count(), 0);
  const bool names_culprit =
      cause.code != FailureCode::kMismatch && cause.code != FailureCode::kDeadlineExceeded;
  deadline_ns_ = names_culprit ? now_ns : now_ns + kReportWaitNs;
  if (layout_.self() < layout_.node_count()) {
    Note(own_calls, operation, layout_.self());
    reported_[layout_.self()] = 1;
  }
}

void Inquest::Note(const RankCalls& calls, const OperationKey& operation, std::uint16_t node) {
  for (const v1::RankCall& call : calls) {
    if (call.rank() >= layout_.rank_count() || layout_.node_of(call.rank()) != node) continue;
    known_[call.rank()] = {true, operation, call};
  }
}

void Inquest::OnReport(std::uint16_t node, const OperationKey& operation, const RankCalls& calls) {
  if (state_ != State::kOpen) return;
  Note(calls, operation, node);
  reported_[node] = 1;
}

void Inquest::OnNodeLost(std::uint16_t node) {
  if (state_ == State::kOpen) reported_[node] = 1;
}

bool Inquest::CloseIfDue(std::uint64_t now_ns) {
  if (state_ != State::kOpen) return false;
  const bool all =
      std::ranges::all_of(reported_, [](std::uint8_t reported) { return reported != 0; });
  if (!all && now_ns < deadline_ns_) return false;
  Conclude();
  state_ = State::kClosed;
  return true;
}

std::string Inquest::DescribeOperation() const {
  return absl::StrCat(DescribeKey(operation_), " of group ", name_);
}

bool Inquest::IsElsewhere(std::uint32_t rank) const {
  return known_[rank].reported && known_[rank].operation != operation_;
}

bool Inquest::HasCalled(std::uint32_t rank) const {
  return known_[rank].reported && known_[rank].rank_call.called();
}

bool Inquest::HasFinished(std::uint32_t rank) const {
  return known_[rank].rank_call.call() == kFinished;
}

std::string Inquest::DescribeParty(const Party& party) const {
  const std::uint32_t rank = party.front();
  const Known& known = known_[rank];
  if (HasFinished(rank)) {
    return IsElsewhere(rank) ? absl::StrCat("has finished ", DescribeKey(known.operation))
                             : absl::StrCat("called ", kFinished);
  }
  const bool own_is_same = std::ranges::all_of(party, [&](std::uint32_t other) {
    return known_[other].rank_call.own() == known.rank_call.own();
  });
  const std::string own = own_is_same ? known.rank_call.own() : std::string();
  return absl::StrCat("called ", known.rank_call.call(), own, IsElsewhere(rank) ? " in " : "",
                      IsElsewhere(rank) ? DescribeKey(known.operation) : "");
}

// Compares rank-specific arguments only if the rest is equal: otherwise each rank would be its own
// party.
std::vector<Inquest::Party> Inquest::PartiesOf(Scope scope) const {
  const bool with_own = !CallsDiffer();
  std::vector<Party> parties;
  for (std::uint32_t rank = 0; rank < known_.size(); ++rank) {
    const Known& known = known_[rank];
    if (!HasCalled(rank) || !TakesPart(operation_, rank)) continue;
    if (scope == Scope::kElsewhere && !IsElsewhere(rank)) continue;
    const auto same = std::ranges::find_if(parties, [&](const Party& party) {
      const Known& other = known_[party.front()];
      return other.rank_call.call() == known.rank_call.call() &&
             other.operation == known.operation &&
             (!with_own || other.rank_call.own() == known.rank_call.own());
    });
    if (same == parties.end()) {
      parties.push_back({rank});
    } else {
      same->push_back(rank);
    }
  }
  return parties;
}

std::string Inquest::DescribeParties(const std::vector<Party>& parties,
                                     std::size_t bytes_max) const {
  std::vector<std::string> described;
  for (const Party& party : parties) {
    described.push_back(absl::StrCat(party.size() == 1
                                         ? layout_.Describe(party[0])
                                         : absl::StrCat("ranks ", DescribeRanks(party)),
                                     " ", DescribeParty(party)));
  }
  return ShortList(described, "; ", bytes_max);
}

// The smallest party (the last of equals) is the likely culprit and is named first. Ranks that have
// finished made the same call, and ranks in another operation may still make it.
std::string Inquest::DescribeCalls(std::int32_t& odd_one, std::size_t bytes_max) const {
  std::vector<Party> parties = PartiesOf(Scope::kAll);
  odd_one = kNoRank;
  std::size_t here = 0;
  auto odd = parties.end();
  for (auto party = parties.begin(); party != parties.end(); ++party) {
    const std::uint32_t rank = party->front();
    if (IsElsewhere(rank)) continue;
    ++here;
    if (HasFinished(rank)) continue;
    if (odd == parties.end() || party->size() <= odd->size()) odd = party;
  }
  if (here > 1 && odd != parties.end()) {
    odd_one = static_cast<std::int32_t>(odd->front());
    std::rotate(parties.begin(), odd, odd + 1);
  }
  return DescribeParties(parties, bytes_max);
}

std::string Inquest::DescribeMissing(std::int32_t& first, std::size_t bytes_max) const {
  std::vector<std::string> missing;
  for (std::uint32_t rank = 0; rank < known_.size(); ++rank) {
    if (!TakesPart(operation_, rank) || HasCalled(rank)) continue;
    if (first == kNoRank) first = static_cast<std::int32_t>(rank);
    std::string& text = missing.emplace_back(layout_.Describe(rank));
    if (!known_[rank].reported) absl::StrAppend(&text, " (its daemon does not answer)");
    if (IsElsewhere(rank)) {
      absl::StrAppend(&text, " (it had not called ", DescribeKey(known_[rank].operation), ")");
    }
  }
  return ShortList(missing, ", ", bytes_max);
}

std::string Inquest::DescribeAwaited(std::int32_t& first, std::size_t bytes_max) const {
  constexpr absl::string_view kWaits = "it still waits for ";
  constexpr absl::string_view kElsewhere = "others were late elsewhere: ";
  const std::vector<Party> elsewhere = PartiesOf(Scope::kElsewhere);
  const std::size_t list_max = bytes_max - kElsewhere.size();
  const std::string missing = DescribeMissing(first, elsewhere.empty() ? list_max : list_max / 2);
  const std::string others = DescribeParties(elsewhere, list_max - missing.size());
  if (!missing.empty()) {
    return absl::StrCat(kWaits, missing, others.empty() ? "" : "; ", others);
  }
  if (!others.empty()) return absl::StrCat(kElsewhere, others);
  std::string of;
  if (!awaited_.empty()) {
    of = absl::StrCat(" of ", layout_.Describe(awaited_.front()));
    if (first == kNoRank) first = static_cast<std::int32_t>(awaited_.front());
  }
  return absl::StrCat("all ranks have called it, but the data", of, " did not arrive in time");
}

// Send and receive always differ; rank-specific arguments may.
bool Inquest::CallsDiffer() const {
  if (operation_.point_to_point()) return false;
  const std::string* first = nullptr;
  for (std::uint32_t rank = 0; rank < known_.size(); ++rank) {
    if (!HasCalled(rank) || IsElsewhere(rank) || HasFinished(rank)) continue;
    const std::string& call = known_[rank].rank_call.call();
    if (first != nullptr && *first != call) return true;
    first = &call;
  }
  return false;
}

// An awaited rank may wait in an earlier operation, in which another rank called something else.
bool Inquest::SwitchToEarlierMismatch() {
  std::map<std::uint64_t, std::set<std::string>> calls;  // Keyed by operation.
  for (const Known& known : known_) {
    const v1::RankCall& call = known.rank_call;
    if (!known.reported) continue;
    if (call.called() && call.call() != kFinished && !known.operation.point_to_point()) {
      calls[known.operation.number].insert(call.call());
    }
    if (!call.called() && !call.earlier_call().empty()) {
      calls[call.earlier_number()].insert(call.earlier_call());
    }
  }
  const auto different =
      std::ranges::find_if(calls, [](const auto& one) { return one.second.size() > 1; });
  if (different == calls.end()) return false;
  operation_ = {operation_.group, different->first};
  for (Known& known : known_) {
    v1::RankCall& call = known.rank_call;
    if (call.called() || call.earlier_call().empty() ||
        call.earlier_number() != operation_.number) {
      continue;
    }
    known.operation = operation_;
    call.set_called(true);
    call.set_call(call.earlier_call());
  }
  return true;
}

bool Inquest::IsChecked(const Known& known) {
  return absl::StrContains(known.rank_call.call(), "(check ");
}

bool Inquest::AnyIsChecked() const { return std::ranges::any_of(known_, IsChecked); }

bool Inquest::AllAreChecked() const {
  return std::ranges::all_of(
      known_, [](const Known& known) { return !known.rank_call.called() || IsChecked(known); });
}

// The text stays within the limit of an error: lists are shortened, the remedy is kept.
void Inquest::Conclude() {
  if (verdict_.code == FailureCode::kDeadlineExceeded &&
      (CallsDiffer() || SwitchToEarlierMismatch())) {
    verdict_.code = FailureCode::kMismatch;
    verdict_.rank = kNoRank;
  }
  if (verdict_.code == FailureCode::kMismatch) {
    std::int32_t odd_one = kNoRank;
    std::string end =
        absl::StrCat("; ", DescribeOperation(),
                     ". All ranks of a group must call the same operations in the same order.");
    if (AnyIsChecked() && !AllAreChecked())
      absl::StrAppend(&end, " MLXCOMM_CHECK must be the same on all of them.");
    if (!operation_.point_to_point() && !AnyIsChecked()) absl::StrAppend(&end, kForgottenRankHint);
    verdict_.message =
        absl::StrCat(DescribeCalls(odd_one, kFailureMessageBytesMax - end.size()), end);
    if (verdict_.rank == kNoRank) verdict_.rank = odd_one;
  } else if (verdict_.code == FailureCode::kDeadlineExceeded) {
    constexpr std::size_t kCauseBytesMax = 300;
    constexpr std::size_t kTargetBytesMax = 50;
    const std::string remedy =
        absl::StrCat(", or set a longer timeout.",
                     operation_.point_to_point() || AnyIsChecked() ? "" : kForgottenRankHint);
    const std::string begin = absl::StrCat(Shortened(verdict_.message, kCauseBytesMax), " in ",
                                           DescribeOperation(), ": ");
    const std::size_t bytes_left =
        kFailureMessageBytesMax - begin.size() - kTargetBytesMax - remedy.size();
    const std::string awaited = DescribeAwaited(verdict_.rank, bytes_left);
    const std::string target = verdict_.rank == kNoRank ? "their nodes (mlxcommctl doctor)"
                                                        : absl::StrCat("rank ", verdict_.rank);
    verdict_.message = absl::StrCat(begin, awaited, ". Check ", target, remedy);
  }
}

}  // namespace mlxcomm::collective

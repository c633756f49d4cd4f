// Ends a Group: lost ranks and nodes, deadlines, and the inquest that finds the culprit.
#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/collective/group.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::collective {
namespace {
// Limits of parts of a message. A rank gets kFailureMessageBytesMax bytes; the remedy comes last.
constexpr std::size_t kNameBytesMax = 80;
constexpr std::size_t kCallBytesMax = 80;
constexpr std::size_t kWhyBytesMax = 140;
constexpr std::size_t kAwaitedBytesMax = 200;
constexpr std::size_t kWaitBytesMax = 40;  // A failure's cause has 120.

std::string JoinEnds(std::span<const std::uint64_t> counts) {
  constexpr std::size_t kShown = 8;
  if (counts.size() <= kShown) return absl::StrCat("[", absl::StrJoin(counts, ", "), "]");
  return absl::StrCat("[", absl::StrJoin(counts.first(kShown - 1), ", "), ", ... ", counts.back(),
                      "] (", counts.size(), " counts)");
}

void Write(const OperationKey& key, v1::OperationName& name) {
  name.set_point_to_point(key.point_to_point());
  name.set_source_rank(key.source_rank);
  name.set_destination_rank(key.destination_rank);
  name.set_tag(key.tag);
  name.set_number(key.number);
}

OperationKey KeyOf(const v1::OperationName& name) {
  if (!name.point_to_point()) return {.number = name.number()};
  return {0, name.number(), name.source_rank(), name.destination_rank(), name.tag()};
}

void SendTo(const NodeId& node, std::shared_ptr<const v1::PeerMessage> message,
            ActionQueue& actions) {
  Action& action = actions.emplace_back();
  action.kind = Action::Kind::kMessage;
  action.node = node;
  action.message = std::move(message);
}
}  // namespace

void Write(std::uint64_t group, const Failure& cause, v1::FailureReport& report) {
  report.set_group(group);
  report.set_code(static_cast<std::uint32_t>(cause.code));
  report.set_rank(cause.rank);
  report.set_message(cause.message);
}

std::string Operation::LocalCall::DescribeCommon() const {
  const std::string text = call.signature.Describe();
  return CountsPerRank(call.signature.kind) == 1 ? absl::StrCat(text, " of ", JoinEnds(counts))
                                                 : text;
}

std::string Operation::LocalCall::DescribeOwn() const {
  if (CountsPerRank(call.signature.kind) != 2) return {};
  const std::span<const std::uint64_t> table(counts);
  return absl::StrCat(" sending ", JoinEnds(table.first(table.size() / 2)), ", expecting ",
                      JoinEnds(table.subspan(table.size() / 2)));
}

std::string Group::ShownName() const { return Shortened(name_, kNameBytesMax); }

void Group::Fail(const Failure& cause, const OperationKey& operation, std::uint64_t now_ns) {
  if (failed()) return;  // The first failure wins.
  const auto found = by_key_.find(operation);
  inquest_.Open(
      cause, operation, CallsOf(operation), now_ns,
      found == by_key_.end() ? std::vector<std::uint32_t>() : AwaitedRanks(*found->second));
  alarm_ = std::min(alarm_, inquest_.deadline_ns());
  // Answers repeat the cause, because they may overtake the report.
  const auto message = std::make_shared<v1::PeerMessage>();
  v1::FailureReport& report = *message->mutable_failure_report();
  Write(id_, cause, report);
  Write(operation, *report.mutable_operation());
  *report.mutable_calls() = CallsOf(operation);
  SendToOthers(message);
  actions_.emplace_back().kind = Action::Kind::kGroupFailed;
  actions_.back().key.group = id_;
  for (Operation* const operation : InOrder()) {
    if (operation->running) operation->execution.Abort();
  }
  OnTime(now_ns);
}

void Group::SendToOthers(const std::shared_ptr<const v1::PeerMessage>& message) {
  for (std::uint16_t node = 0; node < layout_.node_count(); ++node) {
    if (node != layout_.self()) SendTo(layout_.node(node), message, actions_);
  }
}

void Group::OnReport(std::uint16_t node, const v1::FailureReport& report, std::uint64_t now_ns) {
  if (node == layout_.self()) return;
  const auto code = static_cast<FailureCode>(report.code());
  const bool is_known = report.code() <= 255 && IsValid(code);
  const Failure cause{is_known ? code : FailureCode::kInternal, report.rank(), report.message()};
  if (!failed() && cause.ok()) return;  // A report must state what failed.
  OperationKey key = KeyOf(report.operation());
  if (key.point_to_point() &&
      (key.source_rank >= layout_.rank_count() || key.destination_rank >= layout_.rank_count())) {
    key = {};  // The peer's fault, but the group has failed.
  }
  key.group = id_;
  Fail(cause, key, now_ns);  // Unless it has already failed.
  inquest_.OnReport(node, key, report.calls());
  OnTime(now_ns);
}

void Group::OnTime(std::uint64_t now_ns) {
  if (!failed()) {
    bool stalled = false;
    if (FailLate(now_ns, stalled)) return;
    if (stalled) BeginRollCall(now_ns);
    if (roll_call_.CloseIfDue(now_ns)) {
      FindCircles(now_ns);
      JudgeWaits(now_ns);
    }
  }
  if (!inquest_.CloseIfDue(now_ns)) return;
  EndOperations();
  if (observer_ != nullptr) {
    observer_->OnGroupFailed(id_, name_, inquest_.verdict(), inquest_.operation());
  }
}

// Returns whether a call has failed. `stalled`: some late operations may wait as long as a rank may
// still call.
bool Group::FailLate(std::uint64_t now_ns, bool& stalled) {
  // Usually none: the deadline belonged to an operation that has ended.
  const auto is_late = [now_ns](const Operation::LocalCall& local) {
    return local.called && local.deadline_ns <= now_ns;
  };
  const bool any_is_late = std::ranges::any_of(by_key_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second->calls, is_late);
  });
  if (!any_is_late) return false;
  for (Operation* const operation : InOrder()) {
    for (Operation::LocalCall& local : operation->calls) {
      if (!is_late(local)) continue;
      if (local.call.by_liveness) {
        NoteMoves(*operation, now_ns);
        const std::uint64_t since = std::max(local.submitted_ns, operation->moved_ns);
        stalled = stalled || now_ns - since >= local.call.timeout_ns;
        local.deadline_ns = now_ns + std::min(kRollCallAgainNs, local.call.timeout_ns);
        continue;
      }
      const double seconds = static_cast<double>(local.call.timeout_ns) / 1e9;
      const OperationKey late = operation->key;
      Fail({FailureCode::kDeadlineExceeded, kNoRank,
            absl::StrCat(Shortened(local.Describe(), kCallBytesMax), " did not end within ",
                         seconds, " s")},
           late, now_ns);
      return true;
    }
  }
  return false;
}

void Group::NoteMoves(Operation& operation, std::uint64_t now_ns) {
  const std::uint64_t changes = operation.running ? operation.execution.traffic().changes : 0;
  if (changes == operation.traffic_seen) return;
  operation.traffic_seen = changes;
  operation.moved_ns = now_ns;
}

// Starts one for all late operations, and not again at once: a minute's late operations occur one
// by one.
void Group::BeginRollCall(std::uint64_t now_ns) {
  if (roll_call_.open() || now_ns < next_roll_call_ns_) return;
  next_roll_call_ns_ = now_ns + RollCall::kAnswerWaitNs / 8;
  const auto message = std::make_shared<v1::PeerMessage>();
  message->mutable_roll_call()->set_group(id_);
  message->mutable_roll_call()->set_number(roll_call_.Begin(OwnWaits(now_ns), now_ns));
  alarm_ = std::min(alarm_, roll_call_.deadline_ns());
  SendToOthers(message);
}

void Group::OnRollCall(std::uint16_t node, const v1::RollCall& message, std::uint64_t now_ns) {
  if (node == layout_.self() || failed()) return;
  if (!message.answers()) {
    if (answered_ns_[node] != 0 && now_ns - answered_ns_[node] < kRollCallMinNs) return;
    answered_ns_[node] = now_ns;
    const auto answer = std::make_shared<v1::PeerMessage>();
    v1::RollCall& reported = *answer->mutable_roll_call();
    reported.set_group(id_);
    reported.set_number(message.number());
    reported.set_answers(true);
    *reported.mutable_waits() = OwnWaits(now_ns);
    return SendTo(layout_.node(node), answer, actions_);
  }
  roll_call_.OnAnswer(node, message.number(), message.waits());
  OnTime(now_ns);
}

// A rank in several operations counts as waiting for all ranks that any of them awaits.
RankWaits Group::OwnWaits(std::uint64_t now_ns) {
  RankWaits waits;
  std::vector<std::vector<std::uint8_t>> noted(local_.size());
  for (std::size_t i = 0; i < local_.size(); ++i) {
    v1::RankWait& wait = *waits.Add();
    wait.set_rank(layout_.local_ranks()[i]);
    wait.set_stopped(!local_[i].gone && is_stopped_(layout_.member(wait.rank()).pid));
    wait.set_waited_ms(kNever);
    noted[i].assign(layout_.rank_count(), 0);
  }
  for (Operation* const operation : InOrder()) {
    NoteMoves(*operation, now_ns);
    const std::vector<std::uint32_t> awaited = AwaitedRanks(*operation);
    for (std::size_t i = 0; i < local_.size(); ++i) {
      const Operation::LocalCall& local = operation->calls[i];
      const bool asks = local.asked_ns != 0 && now_ns - local.asked_ns <= kAskedWithinNs;
      if (!local.called || local_[i].gone || !asks) continue;
      v1::RankWait& wait = *waits.Mutable(static_cast<int>(i));
      const bool sends = local.call.signature.kind == OperationKind::kSend &&
                         operation->moved_ns <= local.submitted_ns;
      wait.set_sends(sends && (wait.sends() || !wait.waits()));
      wait.set_waits(true);
      const std::uint64_t waited_ns = now_ns - std::max(local.submitted_ns, operation->moved_ns);
      // Without awaited ranks, the rest is local work or data under way.
      wait.set_waited_ms(awaited.empty() ? 0 : std::min(wait.waited_ms(), waited_ns / 1'000'000));
      for (const std::uint32_t rank : awaited) {
        if (std::exchange(noted[i][rank], std::uint8_t{1}) != 0) continue;
        if (wait.awaited_size() == RollCall::kAwaitedMax) wait.set_awaits_more(true);
        if (!wait.awaits_more()) wait.add_awaited(rank);
      }
    }
  }
  return waits;
}

void Group::JudgeWaits(std::uint64_t now_ns) {
  for (Operation* const operation : InOrder()) {
    NoteMoves(*operation, now_ns);
    const std::vector<std::uint32_t> awaited = AwaitedRanks(*operation);
    for (const Operation::LocalCall& local : operation->calls) {
      const std::uint64_t long_ns = local.call.timeout_ns;
      const std::uint64_t since = std::max(local.submitted_ns, operation->moved_ns);
      if (!local.called || !local.call.by_liveness || now_ns - since < long_ns || awaited.empty()) {
        continue;
      }
      const RollCall::Verdict verdict = roll_call_.Judge(awaited, long_ns);
      if (verdict.prospect == RollCall::Prospect::kMayCome) continue;
      const bool stopped = verdict.prospect == RollCall::Prospect::kStopped;
      const std::string wait = absl::StrCat(Shortened(local.Describe(), kWaitBytesMax),
                                            " waits for ", (now_ns - since) / 1'000'000'000, " s");
      const OperationKey late = operation->key;
      Fail({FailureCode::kDeadlineExceeded,
            stopped ? static_cast<std::int32_t>(verdict.rank) : kNoRank,
            stopped
                ? absl::StrCat("rank ", verdict.rank, " is stopped (SIGSTOP, Ctrl-Z), and ", wait)
                : absl::StrCat(wait,
                               ", as do all ranks that it waits for: ", DescribeCircle(verdict))},
           late, now_ns);
      return;
    }
  }
}

// Circles of sends are named long before anything fails. A receive may have been posted early by a
// rank that is still computing what it will send.
void Group::FindCircles(std::uint64_t now_ns) {
  for (Operation* const operation : InOrder()) {
    if (!operation->key.point_to_point()) continue;
    const std::vector<std::uint32_t> awaited = AwaitedRanks(*operation);
    for (Operation::LocalCall& local : operation->calls) {
      local.circle.clear();
      const bool asks = local.called && local.asked_ns != 0;
      if (!asks || awaited.empty() || now_ns - local.submitted_ns < kCircleNs) continue;
      const RollCall::Verdict verdict = roll_call_.Judge(awaited, kCircleNs);
      if (verdict.all_send) local.circle = DescribeCircle(verdict);
    }
  }
}

std::string Group::DescribeCircle(const RollCall::Verdict& verdict) const {
  std::vector<std::string> ranks;
  std::vector<std::string> waits;
  for (const std::uint32_t rank : verdict.waiting) {
    ranks.push_back(absl::StrCat(rank));
    waits.push_back(
        absl::StrCat(rank, " for ", absl::StrJoin(roll_call_.AwaitedBy(rank), " and ")));
  }
  return absl::StrCat("ranks ", ShortList(ranks, ", ", kAwaitedBytesMax), " of group ", ShownName(),
                      " wait for each other (", ShortList(waits, ", ", kAwaitedBytesMax), ")");
}

// Remote calls are unknown: ranks that wait themselves have probably called, unless all do.
std::string Group::DescribeAwaited(const Operation& operation) const {
  std::vector<std::string> all;
  std::vector<std::string> late;
  for (const std::uint32_t rank : AwaitedRanks(operation)) {
    const v1::RankWait* const last = roll_call_.LastOf(rank);
    const bool is_stopped = last != nullptr && last->stopped();
    const std::string text = layout_.Describe(rank) + (is_stopped ? ", which is stopped" : "");
    all.push_back(text);
    if (last == nullptr || !last->waits() || is_stopped) late.push_back(text);
  }
  if (all.empty()) return "data";
  return ShortList(late.empty() ? all : late, ", ", kAwaitedBytesMax);
}

Group::Wait Group::DescribeWait(SessionId session, std::uint64_t ticket, std::uint64_t now_ns) {
  if (failed()) return {};
  Wait wait;
  for (Operation* const operation : InOrder()) {
    for (Operation::LocalCall& local : operation->calls) {
      if (!local.called || local.call.session != session || local.call.ticket != ticket) continue;
      local.asked_ns = now_ns;
      wait.text = absl::StrCat(DescribeAwaited(*operation), ", in ",
                               Shortened(local.Describe(), kCallBytesMax), ", ",
                               DescribeKey(operation->key), " of group ", ShownName());
      wait.circle = local.circle;
    }
  }
  if (wait.text.empty()) return wait;
  BeginRollCall(now_ns);  // Gathers the answer to the next question.
  OnTime(now_ns);
  return failed() ? Wait() : wait;
}

std::uint64_t Group::NextDeadline() const {
  if (inquest_.closed()) return kNever;
  if (inquest_.open()) return inquest_.deadline_ns();
  std::uint64_t next = roll_call_.open() ? roll_call_.deadline_ns() : kNever;
  for (const auto& [key, operation] : by_key_) {
    for (const Operation::LocalCall& local : operation->calls) {
      if (local.called) next = std::min(next, local.deadline_ns);
    }
  }
  return next;
}

// Answers every call whose buffers are no longer in use; the others follow with their last answer.
void Group::EndOperations() {
  std::vector<Operation*> ended;
  for (Operation* const operation : InOrder()) {
    if (!operation->running || operation->execution.quiet()) ended.push_back(operation);
  }
  for (Operation* const operation : ended) {
    for (const Operation::LocalCall& local : operation->calls) {
      if (local.called) Answer(local.call, inquest_.verdict(), /*group_failed=*/true);
    }
    ReportTraffic(*operation);
    if (observer_ != nullptr) observer_->OnEnded(*operation, inquest_.verdict().code);
    Recycle(*operation);
  }
}

void Group::OnLocalRankGone(std::uint32_t rank, const std::string& why, std::uint64_t now_ns) {
  LocalRank& local = local_[static_cast<std::size_t>(layout_.LocalIndexOf(rank))];
  if (local.gone) return;
  const std::string last = LastCallOf(rank);
  local.gone = true;
  --local_ranks_left_;
  const Operation* const oldest = OldestOf(static_cast<std::size_t>(layout_.LocalIndexOf(rank)));
  OperationKey key;
  key.group = id_;
  key.number = local.collectives;
  if (oldest != nullptr) key = oldest->key;
  Fail({FailureCode::kRankLost, static_cast<std::int32_t>(rank),
        absl::StrCat(layout_.Describe(rank), " of group ", ShownName(),
                     " is lost: ", Shortened(why, kWhyBytesMax), "; ", last,
                     ". Start the job again, or continue with the remaining ranks (shrink; with "
                     "launch: --keep-going).")},
       key, now_ns);
  OnTime(now_ns);
}

void Group::OnLocalRankDetached(std::uint32_t rank, std::uint64_t now_ns) {
  const auto index = static_cast<std::size_t>(layout_.LocalIndexOf(rank));
  if (local_[index].gone) return;
  if (OldestOf(index) != nullptr) {
    return OnLocalRankGone(rank, "it left the job with an operation in flight", now_ns);
  }
  local_[index].gone = true;
  --local_ranks_left_;
  if (failed()) return;
  const auto message = std::make_shared<v1::PeerMessage>();
  message->mutable_rank_detached()->set_group(id_);
  message->mutable_rank_detached()->set_rank(rank);
  message->mutable_rank_detached()->set_collectives(local_[index].collectives);
  SendToOthers(message);
  FailOperationsOfLeftRanks(now_ns);
}

void Group::OnRemoteRankDetached(std::uint32_t rank, std::uint64_t collectives,
                                 std::uint64_t now_ns) {
  if (rank >= remote_.size() || layout_.LocalIndexOf(rank) >= 0) return;
  remote_[rank] = {true, collectives};
  if (!failed()) FailOperationsOfLeftRanks(now_ns);
}

bool Group::RankIsGone(std::uint32_t rank) const {
  const int local = layout_.LocalIndexOf(rank);
  return local >= 0 ? local_[static_cast<std::size_t>(local)].gone : remote_[rank].left;
}

void Group::FailOperationsOfLeftRanks(std::uint64_t now_ns) {
  for (const Operation* const operation : InOrder()) {
    if (FailIfRankHasLeft(*operation, now_ns)) return;
  }
}

bool Group::FailIfRankHasLeft(const Operation& operation, std::uint64_t now_ns) {
  const bool called =
      std::ranges::any_of(operation.calls, [](const auto& local) { return local.called; });
  if (!called) return false;  // No rank here waits for it.
  for (std::uint32_t rank = 0; rank < layout_.rank_count(); ++rank) {
    if (!NeedsRank(operation, rank)) continue;
    const OperationKey key = operation.key;
    Fail({FailureCode::kRankLost, static_cast<std::int32_t>(rank),
          absl::StrCat(layout_.Describe(rank), " has left group ", ShownName(),
                       " and is needed in ", DescribeKey(key), ": ranks must end together")},
         key, now_ns);
    return true;
  }
  return false;
}

bool Group::NeedsRank(const Operation& operation, std::uint32_t rank) const {
  const OperationKey& key = operation.key;
  if (!TakesPart(key, rank)) return false;
  const int local = layout_.LocalIndexOf(rank);
  if (local >= 0) {
    const auto index = static_cast<std::size_t>(local);
    return local_[index].gone && !operation.calls[index].called;
  }
  if (!remote_[rank].left) return false;
  if (!key.point_to_point()) return key.number >= remote_[rank].collectives;
  // A rank's data arrives before the news that it left, and by then it has received all that it
  // asked for.
  if (operation.running) return operation.execution.NeedsPeer();
  return operation.early_eager.empty();
}

// No rank there will acknowledge them.
void Group::FinishSendsTo(std::uint16_t node) {
  for (Operation* const operation : InOrder()) {
    if (!operation->running) continue;
    operation->execution.OnReceiverLeft(node);
    FinishIfDone(*operation);
  }
}

void Group::OnNodeLost(std::uint16_t node, const std::string& why, std::uint64_t now_ns) {
  // Ranks that left in an orderly way are not lost.
  const auto& ranks = layout_.ranks_on(node);
  const auto lost =
      std::ranges::find_if(ranks, [this](std::uint32_t rank) { return !remote_[rank].left; });
  if (lost == ranks.end() && !failed()) return FinishSendsTo(node);
  for (Operation* const operation : InOrder()) {
    if (operation->running) operation->execution.OnNodeLost(node);
  }
  inquest_.OnNodeLost(node);
  roll_call_.OnNodeLost(node);
  if (!failed()) {
    OperationKey key;
    key.group = id_;
    for (const auto& [other, operation] : by_key_) key = std::max(key, other);
    Fail(
        {FailureCode::kRankLost, static_cast<std::int32_t>(*lost),
         absl::StrCat(layout_.Describe(*lost), " of group ", ShownName(),
                      " is lost: ", Shortened(why, kWhyBytesMax),
                      ". Check that node's daemon and cable, then start the job again, or continue "
                      "with the remaining ranks (shrink; with launch: --keep-going).")},
        key, now_ns);
  }
  OnTime(now_ns);
  if (inquest_.closed()) EndOperations();
}

RankCalls Group::CallsOf(const OperationKey& key) const {
  RankCalls calls;
  const auto found = by_key_.find(key);
  for (std::size_t i = 0; i < local_.size(); ++i) {
    const std::uint32_t rank = layout_.local_ranks()[i];
    if (!TakesPart(key, rank)) continue;
    v1::RankCall& call = *calls.Add();
    call.set_rank(rank);
    if (found != by_key_.end() && found->second->calls[i].called) {
      call.set_called(true);
      call.set_call(found->second->calls[i].DescribeCommon());
      call.set_own(found->second->calls[i].DescribeOwn());
    } else if (found == by_key_.end() && IsOver(key)) {
      call.set_called(true);
      call.set_call(Inquest::kFinished);
    } else if (const Operation* const oldest = OldestOf(i);
               oldest != nullptr && !oldest->key.point_to_point()) {
      call.set_earlier_number(oldest->key.number);
      call.set_earlier_call(oldest->calls[i].DescribeCommon());
    }
  }
  return calls;
}

// A send that its process has not asked about comes last: the process may not wait for it.
const Operation* Group::OldestOf(std::size_t local_index) const {
  const auto order = [local_index](const Operation& operation) {
    const Operation::LocalCall& local = operation.calls[local_index];
    return std::pair(local.MayBeLeft(), local.submitted_ns);
  };
  const Operation* oldest = nullptr;
  for (const Operation* const operation : InOrder()) {
    if (!operation->calls[local_index].called) continue;
    if (oldest == nullptr || order(*operation) < order(*oldest)) oldest = operation;
  }
  return oldest;
}

std::string Group::LastCallOf(std::uint32_t rank) const {
  const auto index = static_cast<std::size_t>(layout_.LocalIndexOf(rank));
  if (const Operation* const oldest = OldestOf(index); oldest != nullptr) {
    return absl::StrCat("it was in ", DescribeKey(oldest->key), ", ",
                        Shortened(oldest->calls[index].Describe(), kCallBytesMax));
  }
  const std::uint64_t finished = local_[index].operations_done + local_[index].met;
  return absl::StrCat("it had finished ", finished, finished == 1 ? " operation" : " operations");
}

std::vector<std::uint32_t> Group::AwaitedRanks(const Operation& operation) const {
  std::vector<std::uint32_t> awaited;
  for (std::size_t i = 0; i < operation.calls.size(); ++i) {
    const std::uint32_t rank = layout_.local_ranks()[i];
    if (TakesPart(operation.key, rank) && !operation.calls[i].called) awaited.push_back(rank);
  }
  if (!awaited.empty() || !operation.running) return awaited;
  if (operation.key.point_to_point()) {
    for (const std::uint32_t rank : {operation.key.source_rank, operation.key.destination_rank}) {
      const bool is_there = layout_.LocalIndexOf(rank) < 0;
      if (is_there && operation.execution.AwaitedNode() >= 0) awaited.push_back(rank);
    }
    return awaited;
  }
  const int node = operation.execution.AwaitedNode();
  if (node >= 0) awaited = layout_.ranks_on(static_cast<std::uint16_t>(node));
  return awaited;
}

std::vector<RankActivity> Group::Activity(std::uint64_t now_ns) const {
  std::vector<RankActivity> activities;
  for (std::size_t i = 0; i < local_.size(); ++i) {
    RankActivity& activity = activities.emplace_back();
    const std::uint32_t rank = layout_.local_ranks()[i];
    const Member& member = layout_.member(rank);
    activity.gone = local_[i].gone;
    v1::RankStatus& status = activity.status;
    status.set_rank(rank);
    status.set_node(member.node_name);
    status.set_pid(member.pid);
    status.set_operations_done(local_[i].operations_done + local_[i].met);
    status.set_operations_met(local_[i].met);
    status.set_stopped(!activity.gone && is_stopped_(member.pid));
    const Operation* const oldest = OldestOf(i);
    if (oldest == nullptr) continue;
    const Operation::LocalCall& local = oldest->calls[i];
    if (local.MayBeLeft() && now_ns > local.submitted_ns + kHasAskedNs) continue;
    activity.busy = true;
    activity.circle = local.circle;
    status.set_operation(absl::StrCat(local.Describe(), ", ", DescribeKey(oldest->key)));
    status.set_operation_age_ms((now_ns - std::min(now_ns, local.submitted_ns)) / 1'000'000);
    activity.awaited = AwaitedRanks(*oldest);
  }
  return activities;
}

bool Group::UsesSession(SessionId session) const {
  return std::ranges::any_of(by_key_, [session](const auto& entry) {
    return std::ranges::any_of(entry.second->calls, [session](const Operation::LocalCall& local) {
      return local.called && local.call.session == session;
    });
  });
}

}  // namespace mlxcomm::collective

#include "client/lib/in_flight.h"

#include <algorithm>
#include <utility>

#include "client/lib/clock.h"

namespace mlxcomm::client {
namespace {

using meeting::Progress;

}  // namespace

InFlight::InFlight(Queue& queue, Pages& pages, ArenaAllocator& allocator, std::string if_lost)
    : TicketTable(kMost),
      queue_(queue),
      pages_(pages),
      allocator_(allocator),
      if_lost_(std::move(if_lost)) {}

Pending* InFlight::FindOpen(std::uint64_t ticket) {
  Pending* const found = Find(ticket);
  return found == nullptr || found->is_abandoned ? nullptr : found;
}

Pending* InFlight::FindOpen(std::uint64_t group, std::uint64_t ticket) {
  Pending* const found = FindOpen(ticket);
  return found == nullptr || found->operation.entry.group != group ? nullptr : found;
}

bool InFlight::TakeOutcome(std::uint64_t ticket, Outcome& outcome) {
  Pending* found = Find(ticket);
  if ((found == nullptr || !found->outcome.has_value()) && !queue_.has_reader()) {
    TakeCompletions();
    found = Find(ticket);
  }
  if (found == nullptr || !found->outcome.has_value()) return false;
  outcome = *std::move(found->outcome);
  Erase(ticket);
  return true;
}

void InFlight::EndOnPage(Pending& pending, Progress progress, std::uint64_t now) {
  if (!pending.on_page() || !pages_.End(pending.operation, progress, now)) return;
  allocator_.Unpin(pending.pins);
  pending.outcome = Outcome{};
}

Progress InFlight::LookAtPage(Pending& pending, bool is_closed) {
  if (!pending.on_page() || pending.is_watched) return Progress::kWaits;
  Progress progress = pending.operation.Look();
  if (is_closed && progress != Progress::kMet) progress = Progress::kAdopted;
  if (progress != Progress::kWaits) EndOnPage(pending, progress, NowNs());
  return progress;
}

void InFlight::AskToClose(Lock& lock, std::uint64_t group) {
  if (close_asked_) return;
  queue::SubmissionEntry entry{};
  entry.group = group;
  entry.purpose = queue::SubmissionPurpose::kClose;
  const queue::RingResult pushed = queue_.Push(entry);
  if (pushed == queue::RingResult::kCorrupt) return LoseDaemon("its queue is corrupt");
  close_asked_ = pushed == queue::RingResult::kDone;
  if (!close_asked_ || !queue_.DaemonSleeps()) return;
  lock.unlock();
  queue_.Ring();
  lock.lock();
}

void InFlight::Sweep() {
  EraseWhere([&](Pending& pending) {
    LookAtPage(pending);
    return pending.is_abandoned && pending.outcome.has_value();
  });
}

void InFlight::Collect() {
  if (!queue_.has_reader()) TakeCompletions();
  Sweep();
}

void InFlight::TakeCompletions() {
  queue::CompletionEntry entry;
  queue::RingResult result = queue_.Pop(entry);
  if (result == queue::RingResult::kDone) queue_.Notify();  // Some may be other threads'.
  for (; result == queue::RingResult::kDone; result = queue_.Pop(entry)) Settle(entry);
  if (result == queue::RingResult::kCorrupt) LoseDaemon("its queue is corrupt");
}

void InFlight::Settle(const queue::CompletionEntry& entry) {
  if (entry.ticket == 0) close_asked_ = false;
  Pending* const found = Find(entry.ticket);
  if (found == nullptr || found->outcome.has_value()) return;
  Pending& settled = *found;
  EndOnPage(settled, Progress::kAdopted, 0);
  allocator_.Unpin(settled.pins);
  const auto code = static_cast<FailureCode>(entry.failure_code);
  settled.outcome = Outcome{{IsValid(code) ? code : FailureCode::kInternal,
                             entry.rank_at_fault,
                             {entry.message, entry.message_bytes}},
                            entry.group_failed != 0};
  const bool is_refused = entry.failure_code != 0 && entry.group_failed == 0;
  if (is_refused && !IsPointToPoint(settled.kind())) {
    pages_.TakeBack(settled.operation.entry.group, settled.operation.number);
  }
  if (settled.is_abandoned) Erase(entry.ticket);
}

bool InFlight::HearDoorbell() {
  const Queue::Rung rung = queue_.Drain();
  OnRung(rung);
  return rung.state == queue::DoorbellState::kRung;
}

void InFlight::ReadOrSleep(Lock& lock, std::uint64_t until_ns) {
  const std::uint64_t now = NowNs();
  if (now >= until_ns) return;
  const std::uint64_t most_ns = std::min(until_ns - now, Queue::kWakeNs);
  if (queue_.has_reader()) return queue_.AwaitReader(lock, most_ns);
  const Queue::Rung rung = queue_.Sleep(lock, most_ns);
  TakeCompletions();
  OnRung(rung);
}

void InFlight::OnRung(const Queue::Rung& rung) {
  if (rung.page >= 0) pages_.Take(rung.page);
  if (rung.state != queue::DoorbellState::kOtherSideGone) return;
  TakeCompletions();  // Its last ones.
  LoseDaemon("it has ended");
}

void InFlight::LoseDaemon(const std::string& why) {
  if (lost_.ok()) {
    lost_ = {FailureCode::kDaemonLost, kNoRank,
             "the connection to mlxcommd is lost: " + why + ". " + if_lost_};
  }
  EraseWhere([&](Pending& pending) {
    EndOnPage(pending, Progress::kAdopted, 0);
    if (!pending.outcome.has_value()) pending.outcome = Outcome{lost_, true};
    return pending.is_abandoned;
  });
  queue_.Notify();
}

}  // namespace mlxcomm::client

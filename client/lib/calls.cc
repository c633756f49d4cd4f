#include "client/lib/calls.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "client/lib/clock.h"

namespace mlxcomm::client {
namespace {

using meeting::Progress;
using meeting::Way;

constexpr std::uint64_t kHearDoorbellNs = 10'000'000;

}  // namespace

bool IsQuiet() {
  const char* const word = std::getenv("MLXCOMM_QUIET");
  return word != nullptr && *word != '\0' && std::string_view(word) != "0";
}

Calls::Calls(Queue& queue, Pages& pages, ArenaAllocator& allocator, std::byte* arena,
             const queue::SpinLimits& waiting, const Control& control, std::string if_lost)
    : queue_(queue),
      pages_(pages),
      allocator_(allocator),
      arena_(arena),
      control_(control),
      if_lost_(std::move(if_lost)) {
  spins_.fill(queue::AdaptiveSpin(waiting));
}

std::optional<std::uint64_t> Calls::Allocate(std::uint64_t bytes) {
  std::optional<std::uint64_t> range = allocator_.Allocate(bytes);
  if (range.has_value()) return range;
  {
    const std::lock_guard lock(mutex_);
    Collect();
  }
  return allocator_.Allocate(bytes);
}

bool Calls::Free(std::uint64_t offset) {
  ArenaAllocator::Pins last;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<ArenaAllocator::Part> range = allocator_.Retire(offset, last);
    if (!range.has_value()) return false;
    recent_.Forget(range->offset);
  }
  allocator_.Unpin(last);  // May take a long time, and operations need the mutex.
  return true;
}

// Without bytes there is nothing to pin: offset 0 may be any buffer's.
Refusal Calls::Pin(const Submission& call, ArenaAllocator::Pins& pins) {
  std::array<ArenaAllocator::Part, ArenaAllocator::Pins::kMost> parts;
  std::size_t used = 0;
  if (call.input_bytes > 0) parts[used++] = {call.entry.input_offset, call.input_bytes};
  if (call.output_bytes > 0) parts[used++] = {call.entry.output_offset, call.output_bytes};
  if (!call.counts.empty()) parts[used++] = {call.entry.count, sizeof(std::uint64_t)};
  const ArenaAllocator::Part* const refused = allocator_.Pin({parts.data(), used}, pins);
  if (refused == nullptr) return std::nullopt;
  const bool is_input = call.input_bytes > 0 && refused == parts.data();
  return Invalid(
      std::string(is_input ? "input" : "output") +
      ": expected memory of one buffer that has not been freed (mlxcomm_buffer_allocate)");
}

bool Calls::IsKnown(const Submission& call) const {
  const queue::SubmissionEntry& entry = call.entry;
  return call.counts.empty() &&
         (call.input_bytes == 0 || recent_.Contain({entry.input_offset, call.input_bytes})) &&
         (call.output_bytes == 0 || recent_.Contain({entry.output_offset, call.output_bytes}));
}

std::optional<Calls::Outcome> Calls::CarryOut(Submission& call) {
  std::uint64_t ticket = 0;
  if (Refusal refusal = Submit(call, /*waits=*/true, ticket)) {
    const bool is_lost = refusal->code == FailureCode::kDaemonLost;
    return Outcome{*std::move(refusal), is_lost};
  }
  if (ticket == 0) return std::nullopt;
  try {
    return Wait(call.entry.group, ticket);
  } catch (...) {  // No memory. No other thread knows the ticket.
    const std::lock_guard lock(mutex_);
    if (Pending* const pending = table_.Find(ticket); pending != nullptr) {
      pending->is_abandoned = true;
      if (pending->outcome.has_value()) table_.Erase(ticket);
    }
    throw;
  }
}

Refusal Calls::Submit(Submission& call, bool waits, std::uint64_t& ticket) {
  const std::span<const std::uint64_t> counts = call.counts;
  if (counts.empty()) return Begin(call, waits, ticket);
  const auto table = Allocate(counts.size_bytes());
  if (!table.has_value()) {
    return Failure{FailureCode::kResourceExhausted, kNoRank,
                   "the arena of " + std::to_string(allocator_.total_bytes()) +
                       " bytes has no room for a table of " + std::to_string(counts.size()) +
                       " counts. " + kArenaRemedy};
  }
  std::memcpy(arena_ + *table, counts.data(), counts.size_bytes());
  call.entry.count = *table;
  Refusal refusal = Begin(call, waits, ticket);
  Free(*table);  // At once, or when the operation has ended.
  return refusal;
}

Refusal Calls::Begin(Submission& call, bool waits, std::uint64_t& ticket) {
  queue::SubmissionEntry& entry = call.entry;
  Lock lock(mutex_);
  const std::uint64_t now = NowNs();
  const bool is_collective = !IsPointToPoint(entry.kind);
  // The first call of a group allocates, so this comes before anything changes.
  Meeting* const page = is_collective ? pages_.Find(entry.group) : nullptr;
  // Pages work without the daemon, and a program may submit without ever waiting. In other cases the
  // daemon's answer shows that it is alive; after a pause this would take ten microseconds.
  const bool may_be_unheard = pages_untaken_ || page != nullptr || table_.size() > 0;
  if (may_be_unheard && now - doorbell_heard_ns_ >= kHearDoorbellNs && !queue_.has_reader()) {
    doorbell_heard_ns_ = now;
    if (!HearDoorbell()) pages_untaken_ = false;
  }
  if (table_.size() >= kInFlightMax) Collect();
  if (!lost_.ok()) return lost_;
  if (table_.size() >= kInFlightMax) {
    return Failure{FailureCode::kResourceExhausted, kNoRank,
                   std::to_string(kInFlightMax) +
                       " operations are in flight: wait for some before submitting more"};
  }
  if (page != nullptr && !page->HasRoom()) Sweep();
  Pending called;
  const bool is_known = waits && IsKnown(call);
  if (!is_known) {
    if (Refusal refusal = Pin(call, called.pins)) return refusal;
  }
  ticket = entry.ticket = table_.NextTicket();
  called.group = entry.group;
  called.kind = entry.kind;
  called.bytes = call.input_bytes + call.output_bytes;
  called.began_ns = now;
  called.ask_ns = FirstAsk(entry.kind, now);
  called.due_ns = call.timeout_ns == 0 ? kNever : now + call.timeout_ns;
  called.overdue_ns = call.timeout_ns == 0 ? kNever : called.due_ns + kOverdueAfterNs;
  const bool on_page = is_collective && pages_.Call(call.rank, call.size, call.input_bytes, now,
                                                    entry, called.on_page) == Way::kPage;
  if (on_page && waits && pages_.MeetsAtOnce(called.on_page)) {
    recent_.Add(called.pins);  // Not freed yet, because Free takes the mutex.
    allocator_.Unpin(called.pins);
    ticket = 0;
    return std::nullopt;
  }
  if (is_known) {
    const Refusal none = Pin(call, called.pins);
    MLXCOMM_INVARIANT(!none.has_value());  // Free takes the mutex, and forgets the buffer.
  }
  table_.Add(ticket) = called;
  if (on_page) return std::nullopt;
  // Never full: there are more slots than operations that may be in flight.
  if (queue_.Push(entry) != queue::RingResult::kDone) {
    allocator_.Unpin(called.pins);
    table_.Erase(ticket);
    LoseDaemon("its queue is corrupt");
    return lost_;
  }
  const bool rings = queue_.DaemonSleeps();
  lock.unlock();
  if (rings) queue_.Ring();
  return std::nullopt;
}

Refusal Calls::CopyAlone(const Submission& call) {
  ArenaAllocator::Pins pins;
  if (Refusal refusal = Pin(call, pins)) return refusal;
  if (call.input_bytes > 0 && call.output_bytes > 0) {
    std::memmove(arena_ + call.entry.output_offset, arena_ + call.entry.input_offset,
                 call.output_bytes);
  }
  allocator_.Unpin(pins);
  return std::nullopt;
}

void Calls::EndOnPage(Pending& pending, Progress progress, std::uint64_t now) {
  if (pending.on_page.page == nullptr || !pages_.End(pending.on_page, progress, now)) return;
  allocator_.Unpin(pending.pins);
  pending.outcome = Outcome{};
}

// Leaves an operation that another thread watches to that thread. `is_closed`: the daemon has closed the
// page, so all operations are decided there, unless another process has overwritten the page.
Progress Calls::LookAtPage(Pending& pending, bool is_closed) {
  if (pending.on_page.page == nullptr || pending.is_watched) return Progress::kWaits;
  Progress progress = pending.on_page.Look();
  if (is_closed && progress != Progress::kMet) progress = Progress::kAdopted;
  if (progress != Progress::kWaits) EndOnPage(pending, progress, NowNs());
  return progress;
}

void Calls::Settle(const queue::CompletionEntry& entry) {
  if (entry.ticket == 0) close_asked_ = false;
  Pending* const found = table_.Find(entry.ticket);
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
  if (is_refused && !IsPointToPoint(settled.kind)) {
    pages_.TakeBack(settled.group, settled.on_page.operation.number);
  }
  if (settled.is_abandoned) table_.Erase(entry.ticket);
}

void Calls::TakeCompletions() {
  queue::CompletionEntry entry;
  queue::RingResult result = queue_.Pop(entry);
  if (result == queue::RingResult::kDone) queue_.Notify();  // Some may be other threads'.
  for (; result == queue::RingResult::kDone; result = queue_.Pop(entry)) Settle(entry);
  if (result == queue::RingResult::kCorrupt) LoseDaemon("its queue is corrupt");
}

// Ends the operations that have met and that no thread watches.
void Calls::Sweep() {
  table_.EraseWhere([&](Pending& pending) {
    LookAtPage(pending);
    return pending.is_abandoned && pending.outcome.has_value();
  });
}

void Calls::Collect() {
  if (!queue_.has_reader()) TakeCompletions();
  Sweep();
}

void Calls::LoseDaemon(const std::string& why) {
  if (lost_.ok()) {
    lost_ = {FailureCode::kDaemonLost, kNoRank,
             "the connection to mlxcommd is lost: " + why + ". " + if_lost_};
  }
  table_.EraseWhere([&](Pending& pending) {
    EndOnPage(pending, Progress::kAdopted, 0);
    if (!pending.outcome.has_value()) pending.outcome = Outcome{lost_, true};
    return pending.is_abandoned;
  });
  queue_.Notify();
}

void Calls::OnRung(const Queue::Rung& rung) {
  if (rung.page >= 0) pages_.Take(rung.page);
  if (rung.state != queue::DoorbellState::kOtherSideGone) return;
  TakeCompletions();  // Its last ones.
  LoseDaemon("it has ended");
}

// Requires that no thread reads. Returns whether it rang.
bool Calls::HearDoorbell() {
  const Queue::Rung rung = queue_.Drain();
  OnRung(rung);
  return rung.state == queue::DoorbellState::kRung;
}

void Calls::TakePages() {
  const std::lock_guard lock(mutex_);
  for (std::size_t page = 0; page < Pages::kPagesMax && !queue_.has_reader(); ++page) {
    if (!HearDoorbell()) return;
  }
  // The reader takes them only when it sleeps.
  pages_untaken_ = true;
}

void Calls::ForgetGroup(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  Sweep();
  pages_.Forget(group);
}

void Calls::ForgetGroups() {
  const std::lock_guard lock(mutex_);
  Sweep();
  pages_.ForgetAll();
}

Failure Calls::Lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace mlxcomm::client

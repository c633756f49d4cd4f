#include "client/lib/calls.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "client/lib/clock.h"

namespace mlxcomm::client {
namespace {

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
      in_flight_(queue, pages, allocator, std::move(if_lost)) {
  spins_.fill(queue::AdaptiveSpin(waiting));
}

std::optional<std::uint64_t> Calls::Allocate(std::uint64_t bytes) {
  std::optional<std::uint64_t> range = allocator_.Allocate(bytes);
  if (range.has_value()) return range;
  {
    const std::lock_guard lock(mutex_);
    in_flight_.Collect();
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

std::optional<Outcome> Calls::CarryOut(Submission& call) {
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
    if (Pending* const pending = in_flight_.Find(ticket); pending != nullptr) {
      pending->is_abandoned = true;
      if (pending->outcome.has_value()) in_flight_.Erase(ticket);
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

Refusal Calls::Begin(const Submission& call, bool waits, std::uint64_t& ticket) {
  Pending called;
  called.operation.entry = call.entry;
  queue::SubmissionEntry& entry = called.operation.entry;
  Lock lock(mutex_);
  const std::uint64_t now = NowNs();
  const bool is_collective = !IsPointToPoint(entry.kind);
  // The first call of a group allocates, so this comes before anything changes.
  Meeting* const page = is_collective ? pages_.Find(entry.group) : nullptr;
  // Pages work without the daemon, and a program may submit without ever waiting. In other cases
  // the daemon's answer shows that it is alive; after a pause this would take ten microseconds.
  const bool may_be_unheard = pages_untaken_ || page != nullptr || in_flight_.size() > 0;
  if (may_be_unheard && now - doorbell_heard_ns_ >= kHearDoorbellNs && !queue_.has_reader()) {
    doorbell_heard_ns_ = now;
    if (!in_flight_.HearDoorbell()) pages_untaken_ = false;
  }
  if (in_flight_.size() >= InFlight::kMost) in_flight_.Collect();
  if (!in_flight_.lost().ok()) return in_flight_.lost();
  if (in_flight_.size() >= InFlight::kMost) {
    return Failure{FailureCode::kResourceExhausted, kNoRank,
                   std::to_string(InFlight::kMost) +
                       " operations are in flight: wait for some before submitting more"};
  }
  if (page != nullptr && !page->HasRoom()) in_flight_.Sweep();
  const bool is_known = waits && IsKnown(call);
  if (!is_known) {
    if (Refusal refusal = Pin(call, called.pins)) return refusal;
  }
  ticket = entry.ticket = in_flight_.NextTicket();
  called.bytes = call.input_bytes + call.output_bytes;
  called.began_ns = now;
  called.ask_ns = FirstAsk(entry.kind, now);
  called.due_ns = call.timeout_ns == 0 ? kNever : now + call.timeout_ns;
  called.overdue_ns = call.timeout_ns == 0 ? kNever : called.due_ns + kOverdueAfterNs;
  const bool on_page = is_collective && pages_.Call(call.rank, call.size, call.input_bytes, now,
                                                    called.operation) == Way::kPage;
  if (on_page && waits && pages_.MeetsAtOnce(called.operation)) {
    recent_.Add(called.pins);  // Not freed yet, because Free takes the mutex.
    allocator_.Unpin(called.pins);
    ticket = 0;
    return std::nullopt;
  }
  if (is_known) {
    const Refusal none = Pin(call, called.pins);
    MLXCOMM_INVARIANT(!none.has_value());  // Free takes the mutex, and forgets the buffer.
  }
  in_flight_.Add(ticket) = called;
  if (on_page) return std::nullopt;
  // Never full: there are more slots than operations that may be in flight.
  if (queue_.Push(entry) != queue::RingResult::kDone) {
    allocator_.Unpin(called.pins);
    in_flight_.Erase(ticket);
    in_flight_.LoseDaemon("its queue is corrupt");
    return in_flight_.lost();
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

void Calls::TakePages() {
  const std::lock_guard lock(mutex_);
  for (std::size_t page = 0; page < Pages::kPagesMax && !queue_.has_reader(); ++page) {
    if (!in_flight_.HearDoorbell()) return;
  }
  // The reader takes them only when it sleeps.
  pages_untaken_ = true;
}

void Calls::ForgetGroup(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  in_flight_.Sweep();
  pages_.Forget(group);
}

void Calls::ForgetGroups() {
  const std::lock_guard lock(mutex_);
  in_flight_.Sweep();
  pages_.ForgetAll();
}

Failure Calls::Lost() const {
  const std::lock_guard lock(mutex_);
  return in_flight_.lost();
}

}  // namespace mlxcomm::client

#include "client/lib/connection.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "client/lib/own_process.h"
#include "proto/queue/doorbell.h"

namespace mlxcomm::client {
namespace {

// Reports now and then that a job is still forming; called as often as the waiting thread wakes.
struct FormingReporter {
  mlxcomm_interrupt inner;
  const char* job;
  std::uint64_t began_ns;
  std::uint64_t report_ns;
  std::uint64_t ask_ns;
  const mlxcomm_attach_table& attach;
  mlxcomm_attachment* attachment;

  void AskForOtherHalf(std::uint64_t now) {
    std::array<char, 1024> text{};
    int ended = 0;
    attach.awaited(attachment, 0, 0, kAskOtherHalfNs, inner, text.data(), text.size(), &ended);
    const bool found = text[0] != '\0';
    if (found && !IsQuiet()) std::fprintf(stderr, "mlxcomm: %s\n", text.data());
    ask_ns = now + (found ? kReportAgainNs : kAskOtherHalfNs);
  }

  static int Asked(void* context) {
    auto& self = *static_cast<FormingReporter*>(context);
    const std::uint64_t now = NowNs();
    if (now >= self.ask_ns) self.AskForOtherHalf(now);
    if (now >= self.report_ns && !IsQuiet()) {
      std::fprintf(
          stderr,
          "mlxcomm: still waiting for other ranks of job %s (%llu s); mlxcommctl status says which "
          "are missing\n",
          self.job, static_cast<unsigned long long>((now - self.began_ns) / 1'000'000'000));
    }
    if (now >= self.report_ns) self.report_ns = now + kReportAgainNs;
    return self.inner.interrupted == nullptr ? 0 : self.inner.interrupted(self.inner.context);
  }
};

std::string ProgramName() {
#if defined(__APPLE__)
  return ::getprogname();
#elif defined(__GLIBC__)
  return program_invocation_short_name;
#else
  return {};
#endif
}

mlxcomm_group_listener ListenFor(GroupFacts& facts) {
  mlxcomm_group_listener listener{};
  listener.context = &facts;
  listener.group = [](void* context, const mlxcomm_group_told* reported) {
    auto& heard = *static_cast<GroupFacts*>(context);
    heard.id = reported->group;
    heard.rank = reported->rank;
    heard.timeout_default_ns = reported->timeout_default_ns;
    heard.name = reported->name;
    heard.members.reserve(reported->members);
  };
  listener.member = [](void* context, const char* node, std::uint64_t pid) {
    static_cast<GroupFacts*>(context)->members.push_back({node, pid});
  };
  return listener;
}

Failure FailureOf(int code, const mlxcomm_error& error) {
  if (code == MLXCOMM_OK) return {};
  return {static_cast<FailureCode>(code), error.rank, error.message};
}

Failure OtherThanAsked(const char* what) {
  return {FailureCode::kInternal, kNoRank,
          std::string("the daemon made another group than was asked for (") + what +
              "): install the same release of both"};
}

}  // namespace

bool IsQuiet() {
  const char* const word = std::getenv("MLXCOMM_QUIET");
  return word != nullptr && *word != '\0' && std::strcmp(word, "0") != 0;
}

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Connection::~Connection() {
  // In a forked child the attachment's thread is the parent's; the rest is ours as well.
  if (usable() && attachment_ != nullptr) attach_->close(attachment_);
  if (doorbell_ >= 0) ::close(doorbell_);
  if (queue_ != nullptr) ::munmap(queue_, queue::kQueueSegmentBytes);
  if (arena_ != nullptr) ::munmap(arena_, arena_bytes_);
}

void Connection::NoteCopiedResult(std::uint64_t bytes, std::uint64_t nanoseconds) {
  queue::CopiedResults& copied = reinterpret_cast<queue::QueueHeader*>(queue_)->copied_results;
  copied.results.fetch_add(1, std::memory_order_relaxed);
  copied.bytes.fetch_add(bytes, std::memory_order_relaxed);
  copied.nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

bool Connection::usable() const { return creator_pid_ == OwnProcess(); }

bool Connection::Contains(const void* data, std::uint64_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  if (first < arena_ || first > arena_ + arena_bytes_) return false;
  return bytes <= arena_bytes_ - static_cast<std::uint64_t>(first - arena_);
}

Failure Connection::Join(const char* job, std::uint32_t rank, std::uint32_t size,
                         std::uint64_t timeout_ns, const std::string& named_by, GroupFacts& facts) {
  mlxcomm_error error{};
  // Named here too, else a daemon that does not answer at all would be waited for without an end.
  if (timeout_ns == 0) timeout_ns = rendezvous_timeout_ns_;
  const std::uint64_t now = NowNs();
  const std::uint64_t ask_ns = named_by.empty() ? UINT64_MAX : now + kAskOtherHalfNs;
  FormingReporter reporter{interrupt_, job,      now,        now + kReportAfterNs,
                           ask_ns,     *attach_, attachment_};
  const int code = attach_->attach(attachment_, job, rank, size, timeout_ns, ProgramName().c_str(),
                                   named_by.c_str(), {FormingReporter::Asked, &reporter},
                                   ListenFor(facts), &error);
  if (code == MLXCOMM_OK && facts.members.size() != size) {
    Leave(nullptr);
    return OtherThanAsked("its size");
  }
  // The daemon may have let the process in just before it got the cancellation, or before another rank left.
  const bool may_be_in = code == MLXCOMM_CANCELLED || code == MLXCOMM_RANK_LOST;
  if (may_be_in) Leave(nullptr);
  if (code == MLXCOMM_OK) TakePages();
  return FailureOf(code, error);
}

Failure Connection::Split(const SplitCall& call, std::uint64_t timeout_ns, GroupFacts& facts) {
  mlxcomm_error error{};
  const int code =
      attach_->split(attachment_, call.parent, call.number, call.ranks.data(), call.ranks.size(),
                     call.name, timeout_ns, interrupt_, ListenFor(facts), &error);
  if (code != MLXCOMM_OK) return FailureOf(code, error);
  TakePages();
  if (facts.members.size() == call.ranks.size() && facts.rank == call.own_index) return {};
  Release(facts.id);
  return OtherThanAsked("its ranks");
}

Failure Connection::Shrink(std::uint64_t group, std::uint64_t timeout_ns, GroupFacts& facts) {
  mlxcomm_error error{};
  const int code =
      attach_->shrink(attachment_, group, timeout_ns, interrupt_, ListenFor(facts), &error);
  if (code != MLXCOMM_OK) return FailureOf(code, error);
  TakePages();
  if (facts.rank < facts.members.size()) return {};
  Release(facts.id);
  return OtherThanAsked("its ranks");
}

void Connection::Release(std::uint64_t group) {
  attach_->release(attachment_, group);
  const std::lock_guard lock(mutex_);
  ForgetGroup(group);
}

void Connection::Leave(const char* why) {
  attach_->detach(attachment_, why);
  const std::lock_guard lock(mutex_);
  while (!calls_.empty()) ForgetGroup(calls_.begin()->first);
  while (!pages_.empty()) ForgetGroup(pages_.begin()->first);
}

Failure Connection::Lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

// With no bytes there is nothing to pin: offset 0 may be any buffer's.
Refusal Connection::PinRanges(const queue::SubmissionEntry& entry, Extent extent, bool has_table,
                              ArenaAllocator::Pins& pins) {
  std::array<ArenaAllocator::Part, ArenaAllocator::Pins::kMost> parts;
  std::size_t used = 0;
  if (extent.input_bytes > 0) parts[used++] = {entry.input_offset, extent.input_bytes};
  if (extent.output_bytes > 0) parts[used++] = {entry.output_offset, extent.output_bytes};
  if (has_table) parts[used++] = {entry.count, sizeof(std::uint64_t)};
  const ArenaAllocator::Part* const refused = allocator_->Pin({parts.data(), used}, pins);
  if (refused == nullptr) return std::nullopt;
  const bool is_input = extent.input_bytes > 0 && refused == parts.data();
  return Invalid(
      std::string(is_input ? "input" : "output") +
      ": expected memory of one buffer that has not been freed (mlxcomm_buffer_allocate)");
}

std::optional<std::uint64_t> Connection::Allocate(std::uint64_t bytes) {
  std::optional<std::uint64_t> range = allocator_->Allocate(bytes);
  if (range.has_value()) return range;
  {
    const std::lock_guard lock(mutex_);
    if (!reader_present_) TakeCompletions();  // Else the reader does.
    SweepPages();
  }
  return allocator_->Allocate(bytes);
}

bool Connection::Free(std::uint64_t offset) {
  ArenaAllocator::Pins last;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<ArenaAllocator::Part> range = allocator_->Retire(offset, last);
    if (!range.has_value()) return false;
    for (ArenaAllocator::Part& known : known_) {
      if (known.offset == range->offset) known = {};
    }
  }
  allocator_->Unpin(last);  // May take long, and operations need the mutex.
  return true;
}

bool Connection::Knows(const ArenaAllocator::Part& part) const {
  return std::ranges::any_of(known_, [&](const ArenaAllocator::Part& known) {
    const std::uint64_t before = part.offset - known.offset;  // Large where it lies before.
    return before <= known.bytes && part.bytes <= known.bytes - before;
  });
}

void Connection::NoteKnown(const ArenaAllocator::Pins& pins) {
  for (std::size_t i = 0; i < pins.count(); ++i) {
    const ArenaAllocator::Part range = pins.range(i);
    if (Knows(range)) continue;
    known_[known_next_] = range;
    known_next_ = (known_next_ + 1) % known_.size();
  }
}

std::optional<Connection::Outcome> Connection::CarryOut(queue::SubmissionEntry& entry,
                                                        Caller caller, Extent extent,
                                                        std::span<const std::uint64_t> counts,
                                                        std::uint64_t timeout_ns) {
  std::uint64_t ticket = 0;
  if (Refusal refusal = Submit(entry, caller, extent, counts, timeout_ns, /*waits=*/true, ticket)) {
    const bool lost = refusal->code == FailureCode::kDaemonLost;
    return Outcome{*std::move(refusal), lost};
  }
  if (ticket == 0) return std::nullopt;
  try {
    return Wait(entry.group, ticket);
  } catch (...) {  // No memory. Nobody else knows the ticket.
    GiveUp(ticket);
    throw;
  }
}

void Connection::GiveUp(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  Pending* const pending = pending_.Find(ticket);
  if (pending == nullptr) return;
  pending->abandoned = true;
  if (pending->outcome.has_value()) pending_.Erase(ticket);
}

Refusal Connection::Submit(queue::SubmissionEntry& entry, Caller caller, Extent extent,
                           std::span<const std::uint64_t> counts, std::uint64_t timeout_ns,
                           bool waits, std::uint64_t& ticket) {
  if (counts.empty()) return SubmitEntry(entry, caller, extent, false, timeout_ns, waits, ticket);
  const auto table = Allocate(counts.size_bytes());
  if (!table.has_value()) {
    return Failure{FailureCode::kResourceExhausted, kNoRank,
                   "the arena of " + std::to_string(allocator_->total_bytes()) +
                       " bytes has no room for a table of " + std::to_string(counts.size()) +
                       " counts. " + kArenaRemedy};
  }
  std::memcpy(arena_ + *table, counts.data(), counts.size_bytes());
  entry.count = *table;
  Refusal refusal = SubmitEntry(entry, caller, extent, true, timeout_ns, waits, ticket);
  Free(*table);  // At once, or when the operation has ended.
  return refusal;
}

Refusal Connection::SubmitEntry(queue::SubmissionEntry& entry, Caller caller, Extent extent,
                                bool has_table, std::uint64_t timeout_ns, bool waits,
                                std::uint64_t& ticket) {
  std::unique_lock lock(mutex_);
  const std::uint64_t now = NowNs();
  // Else the daemon's answer tells, if it comes. After a pause this look would hold up the submission by ten
  // microseconds.
  bool may_be_unheard = pages_untaken_ || pending_.size() > 0;
  if (!IsPointToPoint(entry.kind)) {
    may_be_unheard |= CallsOf(entry.group).meeting != nullptr;  // May allocate: before the rest.
  }
  if (may_be_unheard) HearDoorbellNowAndThen(now);
  if (pending_.size() >= kInFlightMax && !reader_present_) TakeCompletions();
  if (pending_.size() >= kInFlightMax) SweepPages();
  if (!lost_.ok()) return lost_;
  if (pending_.size() >= kInFlightMax) {
    return Failure{FailureCode::kResourceExhausted, kNoRank,
                   std::to_string(kInFlightMax) +
                       " operations are in flight: wait for some before submitting more"};
  }
  // Waited for, it may have ended before the mutex is released: then it needs neither pins nor a
  // place among those in flight.
  Pending called;
  const bool is_known = waits && !has_table && Knows(entry, extent);
  if (!is_known) {
    if (Refusal refusal = PinRanges(entry, extent, has_table, called.pins)) return refusal;
  }
  ticket = pending_.NextTicket();
  entry.ticket = ticket;
  called.group = entry.group;
  called.kind = entry.kind;
  called.bytes = extent.input_bytes + extent.output_bytes;
  // Without a deadline the daemon is asked now and then, and has to answer.
  called.began_ns = now;
  called.ask_ns =
      now + (IsPointToPoint(called.kind) ? kAskCircleNs : kReportAfterNs - kAskCircleAgainNs);
  called.overdue_ns = timeout_ns == 0 ? UINT64_MAX : now + timeout_ns + kOverdueAfterNs;
  called.due_ns = timeout_ns == 0 ? UINT64_MAX : now + timeout_ns;
  const bool on_page = NumberCollective(entry, caller, extent, now, called) == meeting::Way::kPage;
  const ArenaAllocator::Pins pinned = called.pins;
  if (on_page && waits && MeetsAtOnce(called)) {
    NoteKnown(pinned);  // Not freed yet, for that takes the mutex.
    ticket = 0;
    return std::nullopt;
  }
  if (is_known) {
    // It cannot have been freed: freeing takes the mutex, and forgets it.
    const Refusal none = PinRanges(entry, extent, false, called.pins);
    MLXCOMM_INVARIANT(!none.has_value());
  }
  pending_.Add(ticket) = called;
  if (on_page) return std::nullopt;
  // Never full: there are more slots than operations that may be in flight.
  if (submissions_->Push(entry) != queue::RingResult::kDone) {
    allocator_->Unpin(called.pins);
    pending_.Erase(ticket);
    LoseDaemon("its queue is corrupt");
    return lost_;
  }
  const bool sleeps = submissions_->ConsumerSleeps();
  lock.unlock();
  if (sleeps) queue::RingDoorbell(doorbell_);
  return std::nullopt;
}

Refusal Connection::CopyAlone(const queue::SubmissionEntry& entry, Extent extent) {
  ArenaAllocator::Pins pins;
  if (Refusal refusal = PinRanges(entry, extent, false, pins)) return refusal;
  if (extent.input_bytes > 0 && extent.output_bytes > 0) {
    std::memmove(arena_ + entry.output_offset, arena_ + entry.input_offset, extent.output_bytes);
  }
  allocator_->Unpin(pins);
  return std::nullopt;
}

void Connection::Settle(const queue::CompletionEntry& entry) {
  if (entry.ticket == 0) {
    close_asked_ = false;
    return settled_.notify_all();
  }
  Pending* const found = pending_.Find(entry.ticket);
  if (found == nullptr) return;
  Pending& settled = *found;
  if (settled.meeting != nullptr) EndOnPage(settled, meeting::Progress::kAdopted, NowNs());
  Outcome outcome;
  outcome.group_failed = entry.group_failed != 0;
  const auto code = static_cast<FailureCode>(entry.failure_code);
  outcome.failure.code = IsValid(code) ? code : FailureCode::kInternal;
  outcome.failure.rank = entry.rank_at_fault;
  outcome.failure.message.assign(entry.message, entry.message_bytes);
  if (!settled.outcome.has_value()) {
    allocator_->Unpin(settled.pins);
    settled.outcome = std::move(outcome);
  }
  settled_.notify_all();  // It may be another thread's.
  if (settled.is_collective && entry.failure_code != 0 && entry.group_failed == 0) {
    TakeBack(settled);
  }
  if (settled.abandoned) pending_.Erase(entry.ticket);
}

void Connection::TakeCompletions() {
  queue::CompletionEntry entry;
  for (;;) {
    switch (completions_->Pop(entry)) {
      case queue::RingResult::kNothing: return;
      case queue::RingResult::kCorrupt: return LoseDaemon("its queue is corrupt");
      case queue::RingResult::kDone: Settle(entry);
    }
  }
}

void Connection::LoseDaemon(const std::string& why) {
  if (lost_.ok()) {
    lost_ = {FailureCode::kDaemonLost, kNoRank,
             "the connection to mlxcommd is lost: " + why +
                 (is_private_ ? ". Its log: " + queue::PrivateLogFile(queue::PrivateSocketPath()) +
                                    ". Buffers stay readable; connect again to start another"
                              : ". Buffers stay readable; connect again once the daemon is back")};
  }
  pending_.EraseWhere([&](Pending& pending) {
    if (!pending.outcome.has_value()) pending.outcome = Outcome{lost_, true};
    return pending.abandoned;
  });
  settled_.notify_all();
}

}  // namespace mlxcomm::client

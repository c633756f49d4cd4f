#include "client/lib/connection.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "client/lib/own_process.h"
#include "proto/queue/doorbell.h"

namespace mlxcomm::client {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
// How often a sleeper wakes to check whether it was interrupted.
constexpr std::uint64_t kLookUpNs = 50 * kMs;
// Beyond an operation's own deadline, which the daemon keeps.
constexpr std::uint64_t kAnswerMarginNs = 10'000 * kMs;
// How long a thread that gives up an operation waits for the daemon to confirm it.
constexpr std::uint64_t kCancelPatienceNs = 100 * kMs;
constexpr std::uint64_t kOverduePatienceNs = 2'000 * kMs;
constexpr std::uint64_t kCancelTimeoutNs = 10'000 * kMs;
// When a wait is reported, first and again; and how long the daemon has to say whom it waits for.
constexpr std::uint64_t kTellAfterNs = 10'000 * kMs;
constexpr std::uint64_t kTellAgainNs = 60'000 * kMs;
constexpr std::uint64_t kAskPatienceNs = 10'000 * kMs;
// Operations that read and write at most these are small, and middling.
constexpr std::uint64_t kSmallBytes = 256 * 1024;
constexpr std::uint64_t kMiddlingBytes = 4 * 1024 * 1024;

// MLXCOMM_QUIET: nothing is written to standard error.
bool IsQuiet() {
  const char* const word = std::getenv("MLXCOMM_QUIET");
  return word != nullptr && *word != '\0' && std::strcmp(word, "0") != 0;
}

// Reports now and then that a job is still forming; called as often as the waiting thread wakes.
struct TellsOfForming {
  mlxcomm_interrupt inner;
  const char* job;
  std::uint64_t began_ns;
  std::uint64_t tell_ns;

  static int Asked(void* context) {
    auto& self = *static_cast<TellsOfForming*>(context);
    const std::uint64_t now = NowNs();
    if (now >= self.tell_ns && !IsQuiet()) {
      std::fprintf(
          stderr,
          "mlxcomm: waits for the other ranks of job %s, for %llu s now (mlxcommctl status "
          "says which are missing)\n",
          self.job, static_cast<unsigned long long>((now - self.began_ns) / 1'000'000'000));
    }
    if (now >= self.tell_ns) self.tell_ns = now + kTellAgainNs;
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

}  // namespace

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

namespace {

mlxcomm_group_listener ListenFor(GroupFacts& facts) {
  mlxcomm_group_listener listener{};
  listener.context = &facts;
  listener.group = [](void* context, const mlxcomm_group_told* told) {
    auto& heard = *static_cast<GroupFacts*>(context);
    heard.id = told->group;
    heard.rank = told->rank;
    heard.timeout_default_ns = told->timeout_default_ns;
    heard.name = told->name;
    heard.members.reserve(told->members);
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

Failure Connection::Join(const char* job, std::uint32_t rank, std::uint32_t size,
                         std::uint64_t timeout_ns, GroupFacts& facts) {
  mlxcomm_error error{};
  // Named here too, else a daemon that does not answer at all would be waited for without an end.
  if (timeout_ns == 0) timeout_ns = rendezvous_timeout_ns_;
  TellsOfForming tells{interrupt_, job, NowNs(), NowNs() + kTellAfterNs};
  const int code = attach_->attach(attachment_, job, rank, size, timeout_ns, ProgramName().c_str(),
                                   {TellsOfForming::Asked, &tells}, ListenFor(facts), &error);
  if (code == MLXCOMM_OK && facts.members.size() != size) {
    Leave(nullptr);
    return OtherThanAsked("its size");
  }
  // The daemon may have let the process in just before it got the cancellation.
  if (code == MLXCOMM_CANCELLED) Leave(nullptr);
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
  const std::lock_guard lock(wait_mutex_);
  ForgetGroup(group);
}

void Connection::Leave(const char* why) {
  attach_->detach(attachment_, why);
  const std::lock_guard lock(wait_mutex_);
  std::vector<std::uint64_t> groups;
  for (const auto& [group, calls] : calls_) groups.push_back(group);
  for (const auto& [group, page] : pages_) groups.push_back(group);
  for (const std::uint64_t group : groups) ForgetGroup(group);
}

Failure Connection::Lost() const {
  const std::lock_guard lock(wait_mutex_);
  return lost_;
}

bool Connection::Interrupted() const {
  return interrupt_.interrupted != nullptr && interrupt_.interrupted(interrupt_.context) != 0;
}

// With no bytes there is nothing to pin: offset 0 may be any buffer's.
Failure Connection::PinRanges(const queue::SubmissionEntry& entry, Extent extent, bool has_table,
                              ArenaAllocator::Pins& pins) {
  std::array<ArenaAllocator::Part, ArenaAllocator::Pins::kMost> parts;
  std::size_t used = 0;
  if (extent.input_bytes > 0) parts[used++] = {entry.input_offset, extent.input_bytes};
  if (extent.output_bytes > 0) parts[used++] = {entry.output_offset, extent.output_bytes};
  if (has_table) parts[used++] = {entry.count, sizeof(std::uint64_t)};
  const ArenaAllocator::Part* const refused = allocator_->Pin({parts.data(), used}, pins);
  if (refused == nullptr) return {};
  const bool is_input = extent.input_bytes > 0 && refused == parts.data();
  return {FailureCode::kInvalidArgument, kNoRank,
          std::string(is_input ? "input" : "output") +
              ": expected memory of one buffer that has not been freed (mlxcomm_buffer_allocate)"};
}

std::optional<std::uint64_t> Connection::Allocate(std::uint64_t bytes) {
  std::optional<std::uint64_t> range = allocator_->Allocate(bytes);
  if (range.has_value()) return range;
  {
    const std::lock_guard lock(wait_mutex_);
    if (!reader_present_) TakeCompletions();  // Else the reader does.
    SweepPages();
  }
  return allocator_->Allocate(bytes);
}

Connection::Outcome Connection::CarryOut(queue::SubmissionEntry& entry, Caller caller,
                                         Extent extent, std::span<const std::uint64_t> counts,
                                         std::uint64_t timeout_ns) {
  std::uint64_t ticket = 0;
  Failure failure =
      SubmitAll(entry, caller, extent, counts, timeout_ns, page_looks_.UnderLocks(), ticket);
  if (failure.ok()) return ticket == 0 ? Outcome{} : Wait(entry.group, ticket);
  const bool lost = failure.code == FailureCode::kDaemonLost;
  return {std::move(failure), lost};
}

Failure Connection::SubmitAll(queue::SubmissionEntry& entry, Caller caller, Extent extent,
                              std::span<const std::uint64_t> counts, std::uint64_t timeout_ns,
                              int looks, std::uint64_t& ticket) {
  if (counts.empty()) return SubmitEntry(entry, caller, extent, false, timeout_ns, looks, ticket);
  const auto table = Allocate(counts.size_bytes());
  if (!table.has_value()) {
    return {FailureCode::kResourceExhausted, kNoRank,
            "the arena of " + std::to_string(allocator_->total_bytes()) +
                " bytes has no room for a table of " + std::to_string(counts.size()) + " counts. " +
                kArenaRemedy};
  }
  std::memcpy(arena_ + *table, counts.data(), counts.size_bytes());
  entry.count = *table;
  Failure failure = SubmitEntry(entry, caller, extent, true, timeout_ns, looks, ticket);
  allocator_->Free(*table);  // At once, or when the operation has ended.
  return failure;
}

Failure Connection::SubmitEntry(queue::SubmissionEntry& entry, Caller caller, Extent extent,
                                bool has_table, std::uint64_t timeout_ns, int looks,
                                std::uint64_t& ticket) {
  const std::lock_guard order(submit_mutex_);
  {
    const std::lock_guard lock(wait_mutex_);
    const std::uint64_t now = NowNs();
    HearDoorbellNowAndThen(now);
    if (pending_.size() >= kInFlightMax && !reader_present_) TakeCompletions();
    if (pending_.size() >= kInFlightMax) SweepPages();
    if (!lost_.ok()) return lost_;
    if (pending_.size() >= kInFlightMax) {
      return {FailureCode::kResourceExhausted, kNoRank,
              std::to_string(kInFlightMax) +
                  " operations are in flight: wait for some before submitting more"};
    }
    // Pinned before any thread can settle it.
    ArenaAllocator::Pins pins;
    if (Failure failure = PinRanges(entry, extent, has_table, pins); !failure.ok()) {
      return failure;
    }
    ticket = pending_.Add();
    entry.ticket = ticket;
    Pending& pending = *pending_.Find(ticket);
    pending.pins = pins;
    pending.group = entry.group;
    pending.kind = entry.kind;
    pending.bytes = extent.input_bytes + extent.output_bytes;
    // Without a deadline the daemon is asked now and then, and has to answer.
    pending.began_ns = now;
    pending.ask_ns = now + kTellAfterNs;
    pending.deadline_ns = timeout_ns == 0 ? UINT64_MAX : now + timeout_ns + kAnswerMarginNs;
    pending.close_ns =
        now + (timeout_ns == 0 ? Meeting::kPatienceNs : std::min(timeout_ns, Meeting::kPatienceNs));
    if (NumberCollective(entry, caller, extent, now, pending) == meeting::Way::kPage) {
      if (looks == 0 || !MeetsAtOnce(pending, looks)) return {};
      pending_.Erase(std::exchange(ticket, 0));
      return {};
    }
  }
  // Never full: there are more slots than operations that may be in flight.
  if (submissions_->Push(entry) != queue::RingResult::kDone) {
    const std::lock_guard lock(wait_mutex_);
    if (Pending* const pending = pending_.Find(ticket); pending != nullptr) {
      allocator_->Unpin(pending->pins);
      pending_.Erase(ticket);
    }
    LoseDaemon("its queue is corrupt");
    return lost_;
  }
  if (submissions_->ConsumerSleeps()) queue::RingDoorbell(doorbell_);
  return {};
}

Failure Connection::CopyAlone(const queue::SubmissionEntry& entry, Extent extent) {
  ArenaAllocator::Pins pins;
  if (Failure failure = PinRanges(entry, extent, false, pins); !failure.ok()) return failure;
  if (extent.input_bytes > 0 && extent.output_bytes > 0) {
    std::memmove(arena_ + entry.output_offset, arena_ + entry.input_offset, extent.output_bytes);
  }
  allocator_->Unpin(pins);
  return {};
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
  if (settled.is_collective && entry.failure_code != 0 && entry.group_failed == 0) {
    TakeBack(settled);
  }
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
  if (settled.abandoned) pending_.Erase(entry.ticket);
  settled_.notify_all();  // It may be another thread's.
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
                 ". Buffers stay readable; connect anew once the daemon is back"};
  }
  pending_.EraseWhere([&](Pending& pending) {
    if (!pending.outcome.has_value()) pending.outcome = Outcome{lost_, true};
    return pending.abandoned;
  });
  settled_.notify_all();
}

// The reader spins, without the lock. True: completions were taken, perhaps other threads'.
bool Connection::LookFirst(std::unique_lock<std::mutex>& lock, const queue::SpinLimits& limits,
                           std::uint64_t until_ns) {
  reader_present_ = true;
  lock.unlock();
  bool found = completions_->HasNext();
  while (!found && NowNs() < until_ns) {
    queue::AdaptiveSpin::Pause(limits);
    found = completions_->HasNext();
  }
  lock.lock();
  reader_present_ = false;
  if (!found) return false;
  TakeCompletions();
  settled_.notify_all();
  return true;
}

// Reads completions, or sleeps until there may be some. Returns with the lock held.
void Connection::ReadOrSleep(std::unique_lock<std::mutex>& lock, std::uint64_t until_ns) {
  const std::uint64_t now = NowNs();
  if (now >= until_ns) return;
  if (reader_present_) {  // Only the reader uses the ring until it comes back.
    settled_.wait_for(lock, std::chrono::nanoseconds(std::min(until_ns - now, kLookUpNs)));
    return;
  }
  reader_present_ = true;
  lock.unlock();
  queue::DoorbellState state = queue::DoorbellState::kSilent;
  int page = -1;
  if (completions_->PrepareToSleep()) {
    state = queue::WaitForDoorbell(doorbell_, std::min(until_ns - now, kLookUpNs), page);
    completions_->WakeUp();
  }
  lock.lock();
  reader_present_ = false;
  if (page >= 0) TakePage(page);
  TakeCompletions();
  if (state == queue::DoorbellState::kOtherSideGone) LoseDaemon("it has ended");
  settled_.notify_all();
}

// Of a group that was left, only the end is awaited.
Connection::Pending* Connection::Find(std::uint64_t group, std::uint64_t ticket) {
  Pending* const found = pending_.Find(ticket);
  return found == nullptr || found->abandoned || found->group != group ? nullptr : found;
}

bool Connection::TakeOutcome(std::uint64_t ticket, Outcome& outcome) {
  const auto ended = [&]() -> Pending* {
    Pending* const found = pending_.Find(ticket);
    return found != nullptr && found->outcome.has_value() ? found : nullptr;
  };
  Pending* found = ended();
  if (found == nullptr && !reader_present_) {
    TakeCompletions();
    found = ended();
  }
  if (found == nullptr) return false;
  outcome = *std::move(found->outcome);
  pending_.Erase(ticket);
  return true;
}

queue::AdaptiveSpin& Connection::SpinFor(std::uint64_t bytes) {
  return spins_[bytes <= kSmallBytes ? 0 : bytes <= kMiddlingBytes ? 1 : 2];
}

// Reports on standard error whom the wait is for; a daemon that does not answer is lost. An
// operation that has ended there, without a completion here, is waited for only as long as usual.
void Connection::TellAwaited(std::unique_lock<std::mutex>& lock, std::uint64_t group,
                             std::uint64_t ticket, std::uint64_t waited_ns) {
  lock.unlock();
  std::array<char, 600> text{};
  int ended = 0;
  const bool answered = attach_->awaited(attachment_, group, ticket, kAskPatienceNs, interrupt_,
                                         text.data(), text.size(), &ended) != 0;
  if (text[0] != '\0' && !IsQuiet()) {
    std::fprintf(stderr, "mlxcomm: waits for %s, for %llu s now\n", text.data(),
                 static_cast<unsigned long long>(waited_ns / 1'000'000'000));
  }
  lock.lock();
  Pending* const pending = Find(group, ticket);
  if (pending == nullptr || pending->outcome.has_value()) return;
  if (!answered) return LoseDaemon("it does not answer");
  if (pending->meeting != nullptr && !pending->waits) {
    DecideOnPage(*pending);
  }
  if (ended != 0) pending->deadline_ns = std::min(pending->deadline_ns, NowNs() + kAnswerMarginNs);
}

Connection::Awaited Connection::Await(std::unique_lock<std::mutex>& lock, std::uint64_t group,
                                      std::uint64_t ticket, std::uint64_t until_ns,
                                      bool interruptible, Outcome& outcome) {
  Pending* pending = Find(group, ticket);
  if (pending == nullptr) return Awaited::kUnknown;
  if (pending->meeting != nullptr && !pending->waits) {
    // Mostly the other ranks have come already.
    const meeting::Progress progress = pending->meeting->Look(pending->met);
    if (progress != meeting::Progress::kWaits) EndOnPage(*pending, progress, NowNs());
  }
  if (pending->outcome.has_value() && TakeOutcome(ticket, outcome)) return Awaited::kEnded;
  queue::AdaptiveSpin& spin = SpinFor(pending->bytes);
  const std::uint64_t began = NowNs();
  std::uint64_t now = began;
  bool was_on_page = false;
  for (;; pending = Find(group, ticket), now = NowNs()) {
    if (pending == nullptr) return Awaited::kUnknown;
    const std::uint64_t deadline_ns = pending->deadline_ns;
    if (TakeOutcome(ticket, outcome)) {
      if (!was_on_page) spin.Learn(now - began);
      return Awaited::kEnded;
    }
    if (now >= until_ns) return Awaited::kTimeout;
    // On a page nobody keeps its deadline: it is the daemon's first.
    if (now >= deadline_ns && pending->meeting == nullptr) return Awaited::kOverdue;
    const std::uint64_t ask_ns = interruptible ? pending->ask_ns : UINT64_MAX;
    if (now >= ask_ns) {
      const std::uint64_t waited_ns = now - pending->began_ns;
      Find(group, ticket)->ask_ns = now + kTellAgainNs;
      TellAwaited(lock, group, ticket, waited_ns);
      continue;
    }
    const std::uint64_t sleep_until_ns = std::min({deadline_ns, until_ns, ask_ns});
    if (pending->meeting != nullptr) {
      was_on_page = true;
      WaitOnPage(lock, group, ticket, now, sleep_until_ns);
      if (TakeOutcome(ticket, outcome)) return Awaited::kEnded;
    } else {
      // Again and again while others' answers come, but in all not longer than spinning is worth.
      if (!reader_present_ && now - began <= spin.budget_ns()) {
        if (LookFirst(lock, spin.limits(), began + spin.budget_ns())) continue;
      }
      ReadOrSleep(lock, sleep_until_ns);
    }
    pending = Find(group, ticket);
    if (!interruptible || pending == nullptr || pending->outcome.has_value()) continue;
    lock.unlock();
    const bool interrupted = Interrupted();
    lock.lock();
    pending = Find(group, ticket);
    if (interrupted && pending != nullptr && !pending->outcome.has_value()) {
      return Awaited::kInterrupted;
    }
  }
}

namespace {

Connection::Outcome NotInFlight(std::uint64_t ticket) {
  return {{FailureCode::kInvalidArgument, kNoRank,
           "ticket " + std::to_string(ticket) +
               ": no operation of this group is in flight under it; each is waited for once"},
          false};
}

}  // namespace

Connection::Outcome Connection::Wait(std::uint64_t group, std::uint64_t ticket) {
  Outcome outcome;
  std::unique_lock lock(wait_mutex_);
  switch (Await(lock, group, ticket, UINT64_MAX, true, outcome)) {
    case Awaited::kEnded: return outcome;
    case Awaited::kInterrupted: break;
    case Awaited::kOverdue: return EndOverdue(lock, group, ticket);
    case Awaited::kTimeout:
    case Awaited::kUnknown: return NotInFlight(ticket);
  }
  // Its buffers stay pinned until it has ended.
  Pending& pending = *Find(group, ticket);
  pending.abandoned = true;
  const char* const kind = OperationKindName(pending.kind);
  lock.unlock();
  attach_->cancel(attachment_, group, ticket, kCancelPatienceNs);
  lock.lock();
  // The daemon has closed the page: either all ranks had come, or it has taken the operation over.
  if (Pending* const found = pending_.Find(ticket); found != nullptr) {
    Pending& given_up = *found;
    if (given_up.meeting != nullptr && !given_up.waits) {
      EndOnPage(given_up, given_up.meeting->Look(given_up.met), NowNs());
    }
    if (given_up.outcome.has_value()) {
      outcome = *std::move(given_up.outcome);
      pending_.Erase(ticket);
      return outcome;
    }
  }
  return {{FailureCode::kCancelled, kNoRank,
           std::string("interrupted while waiting for ") + kind +
               ", which was given up: the group has failed on all its ranks"},
          true};
}

// The daemon hangs; or it lives and has failed the operation, but something keeps its buffers: a
// rail that is silent and not given up yet, or a driver that does not return. Then the rank's other
// groups still work.
Connection::Outcome Connection::EndOverdue(std::unique_lock<std::mutex>& lock, std::uint64_t group,
                                           std::uint64_t ticket) {
  Pending& pending = *Find(group, ticket);
  pending.abandoned = true;  // Its buffers stay pinned until it has ended.
  const char* const kind = OperationKindName(pending.kind);
  lock.unlock();
  const bool lives = attach_->cancel(attachment_, group, ticket, kOverduePatienceNs) != 0;
  lock.lock();
  if (!lives) {
    LoseDaemon("it does not answer");
    return {lost_, true};
  }
  return {{FailureCode::kDeadlineExceeded, kNoRank,
           std::string(kind) +
               " did not end, and long after its deadline something still uses its buffers, though "
               "mlxcommd lives: mlxcommctl doctor may say what. Its group has failed"},
          true};
}

std::optional<Connection::Outcome> Connection::Test(std::uint64_t group, std::uint64_t ticket) {
  std::unique_lock lock(wait_mutex_);
  Pending* const pending = Find(group, ticket);
  if (pending == nullptr) return NotInFlight(ticket);
  const std::uint64_t now = NowNs();
  const std::uint64_t waited_ns = now - pending->began_ns;
  const bool asks = now >= pending->ask_ns;
  if (asks) pending->ask_ns = now + kTellAgainNs;
  Outcome outcome;
  if (pending->meeting != nullptr && !pending->waits) {
    const meeting::Progress progress = pending->meeting->Look(pending->met);
    EndOnPage(*pending, progress, now);
    const bool late = now >= pending->close_ns || progress == meeting::Progress::kDiffers;
    if (pending->meeting != nullptr && late) AskToClose(lock, group);
  }
  if (TakeOutcome(ticket, outcome)) return outcome;
  if (const Pending* const left = Find(group, ticket); left == nullptr) {
    return NotInFlight(ticket);  // Another thread has got its outcome.
  } else if (now >= left->deadline_ns && left->meeting == nullptr) {
    return EndOverdue(lock, group, ticket);
  }
  if (asks) TellAwaited(lock, group, ticket, waited_ns);
  if (!reader_present_) HearDoorbell();
  if (TakeOutcome(ticket, outcome)) return outcome;
  if (Find(group, ticket) == nullptr) return NotInFlight(ticket);
  return std::nullopt;
}

Connection::Outcome Connection::Cancel(std::uint64_t group, std::uint64_t ticket,
                                       std::uint64_t timeout_ns) {
  if (timeout_ns == 0) timeout_ns = kCancelTimeoutNs;
  const std::uint64_t now = NowNs();
  const std::uint64_t until_ns = now + std::min(timeout_ns, UINT64_MAX - now - 1);
  Outcome outcome;
  std::unique_lock lock(wait_mutex_);
  if (Find(group, ticket) == nullptr) return NotInFlight(ticket);
  // DEADLINE_EXCEEDED: the ticket is still to be waited for.
  const auto ended = [&] {
    if (outcome.failure.code == FailureCode::kDeadlineExceeded) {
      Pending& told = pending_.AddAgain(ticket);
      told.group = group;
      told.outcome = outcome;
    }
    return outcome;
  };
  if (TakeOutcome(ticket, outcome)) return ended();
  lock.unlock();
  attach_->cancel(attachment_, group, ticket, std::min(timeout_ns, kCancelPatienceNs));
  lock.lock();
  switch (Await(lock, group, ticket, until_ns, false, outcome)) {
    case Awaited::kEnded: return ended();
    case Awaited::kInterrupted:
    case Awaited::kOverdue:
    case Awaited::kTimeout: break;
    case Awaited::kUnknown:
      return {{FailureCode::kCancelled, kNoRank,
               "ticket " + std::to_string(ticket) +
                   " has ended: another thread that waited for it was told how"},
              false};
  }
  return {
      {FailureCode::kDeadlineExceeded, kNoRank,
       "the daemon may still use the operation's buffers after " +
           std::to_string(timeout_ns / kMs) + " ms: wait for the ticket, or cancel it once more"},
      false};
}

}  // namespace mlxcomm::client

// How a Connection's threads wait for its operations: one of them reads completions, the others wait for it;
// what they do when an operation, or the daemon, does not end; testing and cancelling.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "client/lib/connection.h"
#include "proto/queue/doorbell.h"

namespace mlxcomm::client {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
// How often a sleeper wakes to check whether it was interrupted.
constexpr std::uint64_t kLookUpNs = 50 * kMs;
// How long a thread that gives up an operation waits for the daemon to confirm it.
constexpr std::uint64_t kCancelPatienceNs = 100 * kMs;
// How long the daemon has to answer that an operation is overdue, and then to end it.
constexpr std::uint64_t kOverduePatienceNs = 2'000 * kMs;
constexpr std::uint64_t kCancelTimeoutNs = 10'000 * kMs;
// How long the daemon has to answer which rank a wait is for.
constexpr std::uint64_t kAskPatienceNs = 10'000 * kMs;
// Operations that read and write at most these are small, and middling.
constexpr std::uint64_t kSmallBytes = 256 * 1024;
constexpr std::uint64_t kMiddlingBytes = 4 * 1024 * 1024;

Connection::Outcome NotInFlight(std::uint64_t ticket) {
  return {Invalid("ticket " + std::to_string(ticket) +
                  ": no operation of this group is in flight under it; each is waited for once"),
          false};
}

}  // namespace

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

// Twice before it is reported: what is known of other nodes' ranks is the answer to the question before.
std::uint64_t Connection::NextAsk(const Pending& pending, std::uint64_t now) {
  const std::uint64_t waited_ns = now - pending.began_ns;
  if (waited_ns >= kReportAfterNs) return now + kReportAgainNs;
  if (waited_ns + kAskCircleAgainNs < 2 * kAskCircleNs) return now + kAskCircleAgainNs;
  const std::uint64_t before = kReportAfterNs - kAskCircleAgainNs;
  return pending.began_ns + (waited_ns < before ? before : kReportAfterNs);
}

void Connection::GoOn(std::uint64_t group, std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (Pending* const pending = Find(group, ticket); pending != nullptr) pending->ask_ns = kNeverAsk;
}

// Reports on standard error whom the wait is for; a daemon that does not answer is lost. An
// operation that has ended there, without a completion here, is waited for only as long as usual.
void Connection::ReportAwaited(std::unique_lock<std::mutex>& lock, std::uint64_t group,
                               std::uint64_t ticket, std::uint64_t waited_ns) {
  const std::uint64_t now = NowNs();
  const Pending& asked = *Find(group, ticket);
  const std::uint64_t patient_ns = std::max(now, asked.began_ns + kReportAfterNs) + kAskPatienceNs;
  const std::uint64_t until_ns =
      std::min(patient_ns - kOverduePatienceNs, asked.overdue_ns) + kOverduePatienceNs;
  // This process may have stood still since the caller looked at the time.
  const std::uint64_t patience_ns = std::max(until_ns, now + kOverduePatienceNs) - now;
  lock.unlock();
  std::array<char, 600> text{};
  int ended = 0;
  const bool answered = attach_->awaited(attachment_, group, ticket, patience_ns, interrupt_,
                                         text.data(), text.size(), &ended) != 0;
  const bool in_circle = ended == MLXCOMM_AWAITED_CIRCLE;
  if (text[0] != '\0' && !IsQuiet() && (in_circle || waited_ns >= kReportAfterNs)) {
    std::fprintf(stderr,
                 in_circle
                     ? "mlxcomm: %s, for %llu s now: one of them has to receive first, or send on "
                       "a stream of its own\n"
                     : "mlxcomm: waits for %s, for %llu s now\n",
                 text.data(), static_cast<unsigned long long>(waited_ns / 1'000'000'000));
  }
  lock.lock();
  Pending* const pending = Find(group, ticket);
  if (pending == nullptr || pending->outcome.has_value()) return;
  if (!answered) return LoseDaemon("it does not answer");
  if (in_circle) {
    pending->ask_ns = NowNs() + kReportAgainNs;
    return;
  }
  if (pending->meeting != nullptr && !pending->waits) {
    DecideOnPage(*pending);
  }
  if (ended != 0) pending->overdue_ns = std::min(pending->overdue_ns, NowNs() + kOverdueAfterNs);
}

Connection::Awaited Connection::Await(std::unique_lock<std::mutex>& lock, std::uint64_t group,
                                      std::uint64_t ticket, std::uint64_t until_ns,
                                      Outcome& outcome) {
  const bool has_end = until_ns != kNoEnd;
  Pending* pending = Find(group, ticket);
  if (pending == nullptr) return Awaited::kUnknown;
  if (pending->meeting != nullptr && !pending->waits) {
    // Mostly the other ranks have come already.
    const meeting::Progress progress = pending->meeting->Look(pending->met);
    if (progress != meeting::Progress::kWaits) EndOnPage(*pending, progress, NowNs());
  }
  if (pending->outcome.has_value() && TakeOutcome(ticket, outcome)) return Awaited::kEnded;
  const std::uint64_t bytes = pending->bytes;
  queue::AdaptiveSpin& spin = spins_[bytes <= kSmallBytes ? 0 : bytes <= kMiddlingBytes ? 1 : 2];
  const std::uint64_t began = NowNs();
  std::uint64_t now = began;
  bool was_on_page = false;
  for (;; pending = Find(group, ticket), now = NowNs()) {
    if (pending == nullptr) return Awaited::kUnknown;
    const std::uint64_t overdue_ns = has_end ? until_ns : pending->overdue_ns;
    if (TakeOutcome(ticket, outcome)) {
      if (!was_on_page) spin.Learn(now - began);
      return Awaited::kEnded;
    }
    if (now >= overdue_ns) return Awaited::kOverdue;
    const std::uint64_t ask_ns = has_end ? kNeverAsk : pending->ask_ns;
    if (now >= ask_ns) {
      const std::uint64_t waited_ns = now - pending->began_ns;
      pending->ask_ns = NextAsk(*pending, now);
      ReportAwaited(lock, group, ticket, waited_ns);
      continue;
    }
    const std::uint64_t sleep_until_ns = std::min(overdue_ns, ask_ns);
    if (pending->meeting != nullptr) {
      was_on_page = true;
      WaitOnPage(lock, group, ticket, now, sleep_until_ns);
      DropLeftPages();
      if (TakeOutcome(ticket, outcome)) return Awaited::kEnded;
    } else {
      // Again and again while others' answers come, but in all not longer than spinning is worth.
      if (!reader_present_ && now - began <= spin.budget_ns()) {
        if (LookFirst(lock, spin.limits(), began + spin.budget_ns())) continue;
      }
      ReadOrSleep(lock, sleep_until_ns);
    }
    pending = Find(group, ticket);
    if (has_end || pending == nullptr || pending->outcome.has_value()) continue;
    lock.unlock();
    const bool interrupted = Interrupted();
    lock.lock();
    pending = Find(group, ticket);
    if (interrupted && pending != nullptr && !pending->outcome.has_value()) {
      return Awaited::kInterrupted;
    }
  }
}

Connection::Outcome Connection::Wait(std::uint64_t group, std::uint64_t ticket) {
  Outcome outcome;
  std::unique_lock lock(mutex_);
  if (Pending* const found = Find(group, ticket); found != nullptr && found->ask_ns == kNeverAsk) {
    found->began_ns = NowNs();
    found->ask_ns = found->began_ns + kAskCircleNs;
  }
  switch (Await(lock, group, ticket, kNoEnd, outcome)) {
    case Awaited::kEnded: return outcome;
    case Awaited::kInterrupted: break;
    case Awaited::kOverdue: return EndOverdue(lock, group, ticket);
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

// The daemon stands still, or did until now; or it lives and has failed the operation, but something keeps
// its buffers: a rail that is silent and not given up yet, or a driver that does not return. Then the rank's
// other groups still work.
Connection::Outcome Connection::EndOverdue(std::unique_lock<std::mutex>& lock, std::uint64_t group,
                                           std::uint64_t ticket) {
  const std::string kind = OperationKindName(Find(group, ticket)->kind);
  lock.unlock();
  const bool lives = attach_->cancel(attachment_, group, ticket, kOverduePatienceNs) != 0;
  lock.lock();
  Pending* const asked = Find(group, ticket);
  if (asked == nullptr) return NotInFlight(ticket);
  if (!lives && !asked->outcome.has_value()) LoseDaemon("it does not answer");
  if (asked->meeting != nullptr && !asked->waits) DecideOnPage(*asked);
  Outcome outcome;
  const Awaited end = Await(lock, group, ticket, NowNs() + kOverduePatienceNs, outcome);
  if (end == Awaited::kUnknown) return NotInFlight(ticket);
  if (end == Awaited::kEnded) {
    if (outcome.failure.code != FailureCode::kCancelled) return outcome;
    // Nobody had failed it, so the daemon has just learned of it.
    outcome.failure = {FailureCode::kDeadlineExceeded, kNoRank,
                       kind +
                           " was given up long after its deadline, for mlxcommd stood still "
                           "meanwhile: its group has failed on all its ranks"};
    return outcome;
  }
  Find(group, ticket)->abandoned = true;  // Its buffers stay pinned until it has ended.
  return {
      {FailureCode::kDeadlineExceeded, kNoRank,
       kind + " does not end, for something still uses its buffers, though mlxcommd lives and has "
              "given it up: mlxcommctl doctor may say what. Its group has failed"},
      true};
}

std::optional<Connection::Outcome> Connection::Test(std::uint64_t group, std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  Pending* const pending = Find(group, ticket);
  if (pending == nullptr) return NotInFlight(ticket);
  const std::uint64_t now = NowNs();
  const std::uint64_t waited_ns = now - pending->began_ns;
  const bool asks = now >= pending->ask_ns;
  if (asks) pending->ask_ns = NextAsk(*pending, now);
  Outcome outcome;
  if (pending->meeting != nullptr && !pending->waits) {
    const meeting::Progress progress = pending->meeting->Look(pending->met);
    EndOnPage(*pending, progress, now);
    const bool late = waited_ns >= Meeting::kPatienceNs || now >= pending->due_ns ||
                      progress == meeting::Progress::kDiffers;
    if (pending->meeting != nullptr && late) AskToClose(lock, group);
  }
  if (TakeOutcome(ticket, outcome)) return outcome;
  if (const Pending* const left = Find(group, ticket); left == nullptr) {
    return NotInFlight(ticket);  // Another thread has got its outcome.
  } else if (now >= left->overdue_ns) {
    return EndOverdue(lock, group, ticket);
  }
  if (asks) ReportAwaited(lock, group, ticket, waited_ns);
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
  std::unique_lock lock(mutex_);
  if (Find(group, ticket) == nullptr) return NotInFlight(ticket);
  // DEADLINE_EXCEEDED: the ticket is still to be waited for.
  const auto ended = [&] {
    if (outcome.failure.code == FailureCode::kDeadlineExceeded) {
      Pending& reported = pending_.Add(ticket);
      reported.group = group;
      reported.outcome = outcome;
    }
    return outcome;
  };
  if (TakeOutcome(ticket, outcome)) return ended();
  lock.unlock();
  attach_->cancel(attachment_, group, ticket, std::min(timeout_ns, kCancelPatienceNs));
  lock.lock();
  const Awaited end = Await(lock, group, ticket, until_ns, outcome);
  if (end == Awaited::kEnded) return ended();
  if (end == Awaited::kUnknown) {
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

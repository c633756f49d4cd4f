// Lets threads wait for operations: one of them reads completions, the others wait for it. Acts
// when an operation, or the daemon, does not end the wait. Tests and cancels operations.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "client/lib/calls.h"
#include "client/lib/clock.h"

namespace mlxcomm::client {
namespace {

using meeting::Progress;

constexpr std::uint64_t kMs = 1'000'000;
// A thread that gives up an operation waits this long for the daemon to confirm it.
constexpr std::uint64_t kCancelPatienceNs = 100 * kMs;
// The daemon has this long to answer that an operation is overdue, and then to end it.
constexpr std::uint64_t kOverduePatienceNs = 2'000 * kMs;
constexpr std::uint64_t kCancelTimeoutNs = 10'000 * kMs;
// The daemon has this long to report which ranks a wait is for.
constexpr std::uint64_t kAskPatienceNs = 10'000 * kMs;
// The daemon is asked after this long, and again until 2 s have passed, whether the ranks of a
// message wait for each other in a circle; that is reported at once.
constexpr std::uint64_t kAskCircleNs = 1'000 * kMs;
constexpr std::uint64_t kAskCircleAgainNs = 400 * kMs;
constexpr std::uint64_t kBeforeReportNs = kReportAfterNs - kAskCircleAgainNs;
// Operations that read and write at most this many bytes are small, or medium.
constexpr std::uint64_t kSmallBytes = 256 * 1024;
constexpr std::uint64_t kMiddlingBytes = 4 * 1024 * 1024;

Outcome NotInFlight(std::uint64_t ticket) {
  return {Invalid("ticket " + std::to_string(ticket) +
                  ": no operation of this group has it; a ticket can be waited for only once"),
          false};
}

// Twice before a wait is reported: the first answer does not include other nodes' ranks, the second
// does.
std::uint64_t NextAsk(const Pending& pending, std::uint64_t now) {
  const std::uint64_t waited_ns = now - pending.began_ns;
  if (waited_ns >= kReportAfterNs) return now + kReportAgainNs;
  if (waited_ns + kAskCircleAgainNs < 2 * kAskCircleNs) return now + kAskCircleAgainNs;
  return pending.began_ns + (waited_ns < kBeforeReportNs ? kBeforeReportNs : kReportAfterNs);
}

}  // namespace

std::uint64_t Calls::FirstAsk(OperationKind kind, std::uint64_t now) {
  return now + (IsPointToPoint(kind) ? kAskCircleNs : kBeforeReportNs);
}

void Calls::GoOn(std::uint64_t group, std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (Pending* const pending = in_flight_.FindOpen(group, ticket); pending != nullptr)
    pending->ask_ns = kNever;
}

// Asks the daemon which ranks a wait is for, and reports them. A daemon that does not answer is
// lost. If the operation has ended there, it is overdue as if its deadline were now.
void Calls::AskAbout(Lock& lock, std::uint64_t ticket) {
  const std::uint64_t now = NowNs();
  Pending& asked = *in_flight_.FindOpen(ticket);
  asked.ask_ns = NextAsk(asked, now);
  const std::uint64_t group = asked.operation.entry.group;
  const std::uint64_t waited_ns = now - asked.began_ns;
  const std::uint64_t patient_ns = std::max(now, asked.began_ns + kReportAfterNs) + kAskPatienceNs;
  const std::uint64_t until_ns =
      std::min(patient_ns - kOverduePatienceNs, asked.overdue_ns) + kOverduePatienceNs;
  const std::uint64_t patience_ns = std::max(until_ns, now + kOverduePatienceNs) - now;
  lock.unlock();
  std::array<char, 600> text{};
  int ended = 0;
  const bool answered = control_.table->awaited(*control_.attachment, group, ticket, patience_ns,
                                                control_.interrupt, text, ended);
  const bool in_circle = ended == kAwaitedCircle;
  if (text[0] != '\0' && !IsQuiet() && (in_circle || waited_ns >= kReportAfterNs)) {
    std::fprintf(stderr,
                 in_circle
                     ? "mlxcomm: %s, for %llu s now: one of them has to receive first, or send on "
                       "a stream of its own\n"
                     : "mlxcomm: waiting for %s, for %llu s now\n",
                 text.data(), static_cast<unsigned long long>(waited_ns / 1'000'000'000));
  }
  lock.lock();
  Pending* const pending = in_flight_.FindOpen(ticket);
  if (pending == nullptr || pending->outcome.has_value()) return;
  if (!answered) return in_flight_.LoseDaemon("it does not answer");
  if (in_circle) {
    pending->ask_ns = NowNs() + kReportAgainNs;
    return;
  }
  in_flight_.LookAtPage(*pending, /*is_closed=*/true);
  if (ended != 0) pending->overdue_ns = std::min(pending->overdue_ns, NowNs() + kOverdueAfterNs);
}

// Returns when the operation has ended or been adopted, or after a while, to be called again.
void Calls::WaitOnPage(Lock& lock, std::uint64_t ticket, std::uint64_t now,
                       std::uint64_t until_ns) {
  Pending& pending = *in_flight_.FindOpen(ticket);
  const std::uint64_t group = pending.operation.entry.group;
  if (std::exchange(pending.is_watched, true)) {
    return queue_.AwaitReader(lock, std::min(until_ns - std::min(until_ns, now), Queue::kWakeNs));
  }
  until_ns = std::min({until_ns, now + Meeting::kPatienceNs, pending.due_ns});
  const Progress progress = pages_.Wait(lock, pending.operation, now, until_ns);
  Pending* const left = in_flight_.Find(ticket);
  if (left == nullptr) return;  // Another thread took its outcome.
  left->is_watched = false;
  now = NowNs();
  in_flight_.EndOnPage(*left, progress, now);
  if (!left->on_page()) return queue_.Notify();
  in_flight_.AskToClose(lock, group);
  in_flight_.ReadOrSleep(lock, now + Queue::kWakeNs);
}

// kOverdue: the operation is still in flight at until_ns. With kNever that means long after its
// deadline, and the wait is reported and can be interrupted.
Calls::Awaited Calls::Await(Lock& lock, std::uint64_t ticket, std::uint64_t until_ns,
                            Outcome& outcome) {
  const bool has_end = until_ns != kNever;
  Pending* pending = in_flight_.FindOpen(ticket);
  if (pending == nullptr) return Awaited::kUnknown;
  in_flight_.LookAtPage(*pending);  // Usually the other ranks have already called.
  if (pending->outcome.has_value() && in_flight_.TakeOutcome(ticket, outcome))
    return Awaited::kEnded;
  const std::uint64_t bytes = pending->bytes;
  queue::AdaptiveSpin& spin = spins_[bytes <= kSmallBytes ? 0 : bytes <= kMiddlingBytes ? 1 : 2];
  const std::uint64_t began = NowNs();
  std::uint64_t now = began;
  bool was_on_page = false;
  for (;; pending = in_flight_.FindOpen(ticket), now = NowNs()) {
    if (pending == nullptr) return Awaited::kUnknown;
    const std::uint64_t overdue_ns = has_end ? until_ns : pending->overdue_ns;
    if (in_flight_.TakeOutcome(ticket, outcome)) {
      if (!was_on_page) spin.Learn(now - began);
      return Awaited::kEnded;
    }
    if (now >= overdue_ns) return Awaited::kOverdue;
    const std::uint64_t ask_ns = has_end ? kNever : pending->ask_ns;
    if (now >= ask_ns) {
      AskAbout(lock, ticket);
      continue;
    }
    const std::uint64_t sleep_until_ns = std::min(overdue_ns, ask_ns);
    if (pending->on_page()) {
      was_on_page = true;
      WaitOnPage(lock, ticket, now, sleep_until_ns);
      if (in_flight_.TakeOutcome(ticket, outcome)) return Awaited::kEnded;
    } else if (!queue_.has_reader() && now - began <= spin.budget_ns() &&
               queue_.Spin(lock, spin.limits(), began + spin.budget_ns())) {
      // Perhaps another thread's. In all, no longer than spinning is worth.
      in_flight_.TakeCompletions();
      continue;
    } else {
      in_flight_.ReadOrSleep(lock, sleep_until_ns);
    }
    pending = in_flight_.FindOpen(ticket);
    if (has_end || pending == nullptr || pending->outcome.has_value()) continue;
    lock.unlock();
    const bool interrupted = control_.IsInterrupted();
    lock.lock();
    pending = in_flight_.FindOpen(ticket);
    if (interrupted && pending != nullptr && !pending->outcome.has_value()) {
      return Awaited::kInterrupted;
    }
  }
}

bool Calls::CancelAtDaemon(Lock& lock, std::uint64_t group, std::uint64_t ticket,
                           std::uint64_t patience_ns) {
  lock.unlock();
  const bool answered = control_.table->cancel(*control_.attachment, group, ticket, patience_ns);
  lock.lock();
  return answered;
}

Outcome Calls::Wait(std::uint64_t group, std::uint64_t ticket) {
  Outcome outcome;
  Lock lock(mutex_);
  Pending* const found = in_flight_.FindOpen(group, ticket);
  if (found == nullptr) return NotInFlight(ticket);
  if (found->ask_ns == kNever) {
    found->began_ns = NowNs();
    found->ask_ns = found->began_ns + kAskCircleNs;
  }
  switch (Await(lock, ticket, kNever, outcome)) {
    case Awaited::kEnded: return outcome;
    case Awaited::kOverdue: return EndOverdue(lock, group, ticket);
    case Awaited::kUnknown: return NotInFlight(ticket);
    case Awaited::kInterrupted: break;
  }
  Pending& pending = *in_flight_.FindOpen(ticket);
  const char* const kind = OperationKindName(pending.kind());
  pending.is_abandoned = true;  // Its buffers stay pinned until it has ended.
  CancelAtDaemon(lock, group, ticket, kCancelPatienceNs);
  // The daemon has closed the page: either all ranks had called, or it has adopted the operation.
  if (Pending* const left = in_flight_.Find(ticket); left != nullptr) in_flight_.LookAtPage(*left);
  if (in_flight_.TakeOutcome(ticket, outcome)) return outcome;
  return {{FailureCode::kCancelled, kNoRank,
           std::string("interrupted while waiting for ") + kind +
               ", which was given up: the group has failed on all its ranks"},
          true};
}

// Either the daemon hangs, or did until now. Or it is alive and has failed the operation, but a
// silent rail or a driver still uses the buffers; then the rank's other groups still work.
Outcome Calls::EndOverdue(Lock& lock, std::uint64_t group, std::uint64_t ticket) {
  const std::string kind = OperationKindName(in_flight_.FindOpen(ticket)->kind());
  const bool lives = CancelAtDaemon(lock, group, ticket, kOverduePatienceNs);
  Pending* const asked = in_flight_.FindOpen(ticket);
  if (asked == nullptr) return NotInFlight(ticket);
  if (!lives && !asked->outcome.has_value()) in_flight_.LoseDaemon("it does not answer");
  in_flight_.LookAtPage(*asked, /*is_closed=*/true);
  Outcome outcome;
  const Awaited end = Await(lock, ticket, NowNs() + kOverduePatienceNs, outcome);
  if (end == Awaited::kUnknown) return NotInFlight(ticket);
  if (end == Awaited::kEnded) {
    // CANCELLED: the daemon has just learned of the operation.
    if (outcome.failure.code != FailureCode::kCancelled) return outcome;
    outcome.failure = {FailureCode::kDeadlineExceeded, kNoRank,
                       kind +
                           " was given up long after its deadline, because mlxcommd hung: "
                           "its group has failed on all its ranks"};
    return outcome;
  }
  in_flight_.FindOpen(ticket)->is_abandoned = true;  // Its buffers stay pinned until it has ended.
  return {
      {FailureCode::kDeadlineExceeded, kNoRank,
       kind + " does not end: something still uses its buffers, though mlxcommd is alive and has "
              "given it up. mlxcommctl doctor may name it. Its group has failed"},
      true};
}

std::optional<Outcome> Calls::Test(std::uint64_t group, std::uint64_t ticket) {
  Lock lock(mutex_);
  Pending* const pending = in_flight_.FindOpen(group, ticket);
  if (pending == nullptr) return NotInFlight(ticket);
  const std::uint64_t now = NowNs();
  if (pending->on_page() && !pending->is_watched) {
    const bool differs = in_flight_.LookAtPage(*pending) == Progress::kDiffers;
    const bool is_late =
        now - pending->began_ns >= Meeting::kPatienceNs || now >= pending->due_ns || differs;
    if (pending->on_page() && is_late) in_flight_.AskToClose(lock, group);
  }
  Outcome outcome;
  if (in_flight_.TakeOutcome(ticket, outcome)) return outcome;
  const Pending* const left = in_flight_.FindOpen(ticket);
  if (left == nullptr) return NotInFlight(ticket);  // Another thread took its outcome.
  if (now >= left->overdue_ns) return EndOverdue(lock, group, ticket);
  if (now >= left->ask_ns) AskAbout(lock, ticket);
  if (!queue_.has_reader()) in_flight_.HearDoorbell();
  if (in_flight_.TakeOutcome(ticket, outcome)) return outcome;
  if (in_flight_.FindOpen(ticket) == nullptr) return NotInFlight(ticket);
  return std::nullopt;
}

Outcome Calls::Cancel(std::uint64_t group, std::uint64_t ticket, std::uint64_t timeout_ns) {
  if (timeout_ns == 0) timeout_ns = kCancelTimeoutNs;
  const std::uint64_t now = NowNs();
  const std::uint64_t until_ns = now + std::min(timeout_ns, UINT64_MAX - now - 1);
  Outcome outcome;
  Lock lock(mutex_);
  if (in_flight_.FindOpen(group, ticket) == nullptr) return NotInFlight(ticket);
  Awaited end = Awaited::kEnded;
  if (!in_flight_.TakeOutcome(ticket, outcome)) {
    CancelAtDaemon(lock, group, ticket, std::min(timeout_ns, kCancelPatienceNs));
    end = Await(lock, ticket, until_ns, outcome);
  }
  if (end == Awaited::kUnknown) {
    return {{FailureCode::kCancelled, kNoRank,
             "ticket " + std::to_string(ticket) +
                 " has ended: another thread that waited for it got its outcome"},
            false};
  }
  if (end == Awaited::kEnded) {
    // After DEADLINE_EXCEEDED the caller must still wait for the ticket.
    if (outcome.failure.code == FailureCode::kDeadlineExceeded) {
      Pending& kept = in_flight_.Add(ticket);
      kept.operation.entry.group = group;
      kept.outcome = outcome;
    }
    return outcome;
  }
  return {{FailureCode::kDeadlineExceeded, kNoRank,
           "the daemon may still use the operation's buffers after " +
               std::to_string(timeout_ns / kMs) + " ms: wait for the ticket, or cancel it again"},
          false};
}

}  // namespace mlxcomm::client

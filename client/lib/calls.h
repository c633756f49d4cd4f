// The operations of one session that are in flight: how they are submitted, and how threads wait for them.
//
//   Submit ─▶ its ranges are pinned ─▶ queue or page ─▶ outcome ─Wait, Test or Cancel─▶ the ticket is used up
//                                                          '─abandoned: no thread waits any more─▶ gone
//
// An operation is on a page, with the daemon, or has an outcome. One mutex guards the table, the queue and
// the pages, because the submission ring has one producer; an operation that meets the other ranks at once
// takes it once. The ranges of the arena that an operation uses are pinned before that mutex is released,
// until the operation has ended. An operation that has ended by then needs no pins, because Free
// takes the mutex.
//
// Owner: Connection. Thread: any. Memory: an entry for each operation in flight, allocated once.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/lib/arena_allocator.h"
#include "client/lib/attach_table.h"
#include "client/lib/pages.h"
#include "client/lib/queue.h"
#include "client/lib/recent_buffers.h"
#include "client/lib/ticket_table.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

// Why a call was refused; usually empty. Used on the payload path, because returning an empty
// Failure takes many times as long.
using Refusal = std::optional<Failure>;

// A group's operation whose arguments have been checked.
struct Submission {
  queue::SubmissionEntry entry{};  // Submitting sets its ticket, tag, purpose and table of counts.
  std::uint64_t input_bytes = 0;   // The daemon reads this many from the entry's offset,
  std::uint64_t output_bytes = 0;  // and writes this many.
  std::uint32_t rank = 0;          // The caller's.
  std::uint32_t size = 0;          // The group's.
  std::uint64_t timeout_ns = 0;    // 0: none.
  std::vector<std::uint64_t> counts;
};

// The session's control calls, which the attach module makes.
struct Control {
  const mlxcomm_attach_table* table = nullptr;
  mlxcomm_attachment* attachment = nullptr;
  mlxcomm_interrupt interrupt{};

  bool IsInterrupted() const {
    return interrupt.interrupted != nullptr && interrupt.interrupted(interrupt.context) != 0;
  }
};

// When a wait is first reported on standard error, and how often again.
inline constexpr std::uint64_t kReportAfterNs = 10'000'000'000;
inline constexpr std::uint64_t kReportAgainNs = 60'000'000'000;
// MLXCOMM_QUIET: nothing is written to standard error.
bool IsQuiet();

class Calls {
 public:
  static constexpr std::uint32_t kInFlightMax = queue::kCompletionSlots - 1;

  struct Outcome {
    Failure failure;
    bool group_failed = false;
  };

  // `if_lost` is what the user can do once the daemon is lost.
  Calls(Queue& queue, Pages& pages, ArenaAllocator& allocator, std::byte* arena,
        const queue::SpinLimits& waiting, const Control& control, std::string if_lost);

  // Like the allocator's. If there is no room, it first collects operations that have ended.
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes);
  // At once, or when no operation uses the range any more. False if no allocated range starts
  // there.
  bool Free(std::uint64_t offset);

  // RESOURCE_EXHAUSTED: too many in flight, or no room for the table of counts. INVALID_ARGUMENT: not
  // memory of one buffer. `waits`: the caller is about to wait, so this checks for the other ranks
  // at once; ticket 0 means that they have met, and the operation has ended.
  Refusal Submit(Submission& call, bool waits, std::uint64_t& ticket);
  // Submit and Wait. nullopt if it succeeded, without a ticket.
  std::optional<Outcome> CarryOut(Submission& call);
  // An operation of a group of one rank: its output is its input.
  Refusal CopyAlone(const Submission& call);

  // Each consumes the ticket, unless the operation continues: Test's nullopt, Cancel's
  // DEADLINE_EXCEEDED.
  Outcome Wait(std::uint64_t group, std::uint64_t ticket);
  std::optional<Outcome> Test(std::uint64_t group, std::uint64_t ticket);
  Outcome Cancel(std::uint64_t group, std::uint64_t ticket, std::uint64_t timeout_ns);
  // No thread waits for it until Wait, so nothing is asked or reported about it.
  void GoOn(std::uint64_t group, std::uint64_t ticket);

  // The daemon has sent the page of a new group, if it has one, before it answered.
  void TakePages();
  void ForgetGroup(std::uint64_t group);
  void ForgetGroups();
  // Why the connection is unusable; ok while it works.
  Failure Lost() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::uint64_t kNever = UINT64_MAX;
  // The daemon enforces an operation's deadline. This long after it, the daemon is asked why the
  // operation has not ended.
  static constexpr std::uint64_t kOverdueAfterNs = 8'000'000'000;

  struct Pending {
    std::uint64_t group = 0;
    OperationKind kind = OperationKind::kBarrier;
    ArenaAllocator::Pins pins;  // Its input, its output and its table of counts.
    std::uint64_t bytes = 0;    // Read and written.
    std::uint64_t began_ns = 0;
    std::uint64_t ask_ns = 0;      // When to ask the daemon which ranks it waits for.
    std::uint64_t due_ns = 0;      // Its deadline; the daemon enforces it unless it is on a page.
    std::uint64_t overdue_ns = 0;  // When to ask the daemon why it has not ended.
    Pages::PageCall on_page;
    bool is_watched = false;    // A thread waits on the page for it.
    bool is_abandoned = false;  // No thread waits any more.
    std::optional<Outcome> outcome;
  };
  enum class Awaited : std::uint8_t { kEnded, kOverdue, kInterrupted, kUnknown };

  // All are called with the mutex held; those that take the lock release it while they wait.
  Refusal Begin(Submission& call, bool waits, std::uint64_t& ticket);  // Takes the mutex itself.
  Refusal Pin(const Submission& call, ArenaAllocator::Pins& pins);
  bool IsKnown(const Submission& call) const;
  Pending* Find(std::uint64_t ticket);  // nullptr if there is none that a thread may wait for.
  Pending* Find(std::uint64_t group, std::uint64_t ticket);
  bool TakeOutcome(std::uint64_t ticket, Outcome& outcome);
  void EndOnPage(Pending& pending, meeting::Progress progress, std::uint64_t now);
  meeting::Progress LookAtPage(Pending& pending, bool is_closed = false);
  void Settle(const queue::CompletionEntry& entry);
  void TakeCompletions();
  void Sweep();
  void Collect();
  void LoseDaemon(const std::string& why);
  void OnRung(const Queue::Rung& rung);
  bool HearDoorbell();
  void ReadOrSleep(Lock& lock, std::uint64_t until_ns);
  void AskToClose(Lock& lock, std::uint64_t group);
  void WaitOnPage(Lock& lock, std::uint64_t ticket, std::uint64_t now, std::uint64_t until_ns);
  static std::uint64_t FirstAsk(OperationKind kind, std::uint64_t now);
  static std::uint64_t NextAsk(const Pending& pending, std::uint64_t now);
  void AskAbout(Lock& lock, std::uint64_t ticket);
  bool CancelAtDaemon(Lock& lock, std::uint64_t group, std::uint64_t ticket,
                      std::uint64_t patience_ns);
  Awaited Await(Lock& lock, std::uint64_t ticket, std::uint64_t until_ns, Outcome& outcome);
  Outcome EndOverdue(Lock& lock, std::uint64_t group, std::uint64_t ticket);

  Queue& queue_;
  Pages& pages_;
  ArenaAllocator& allocator_;
  std::byte* const arena_;
  const Control& control_;
  const std::string if_lost_;

  mutable std::mutex mutex_;
  TicketTable<Pending> table_{kInFlightMax};
  RecentBuffers recent_;
  // One for each range of sizes: waits of milliseconds say nothing about waits of microseconds.
  std::array<queue::AdaptiveSpin, 3> spins_;
  bool pages_untaken_ = false;  // The doorbell may have some.
  bool close_asked_ = false;    // The daemon has not answered yet.
  std::uint64_t doorbell_heard_ns_ = 0;
  Failure lost_;  // Latched.
};

}  // namespace mlxcomm::client

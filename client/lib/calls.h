// How a session's operations are submitted, and how threads wait for them.
//
//   Submit ─▶ its ranges are pinned ─▶ queue or page ─▶ in flight ─Wait, Test, Cancel─▶ over
//
// One mutex guards the table, the queue and the pages, because the submission ring has one
// producer; an operation that meets the other ranks at once takes it once. The ranges of the arena
// that an operation uses are pinned before that mutex is released, until the operation has ended.
// One that has ended by then needs no pins, because Free takes the mutex.
//
// Owner: Connection. Thread: any. Memory: that of the operations in flight.
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
#include "client/lib/in_flight.h"
#include "client/lib/pages.h"
#include "client/lib/queue.h"
#include "client/lib/recent_buffers.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

// Why a call was refused; usually empty. Used on the payload path, because returning an empty
// Failure takes many times as long.
using Refusal = std::optional<Failure>;

// A group's operation whose arguments have been checked.
struct Submission {
  queue::SubmissionEntry entry{};  // Submitting sets its table of counts.
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
  // `if_lost` is what the user can do once the daemon is lost.
  Calls(Queue& queue, Pages& pages, ArenaAllocator& allocator, std::byte* arena,
        const queue::SpinLimits& waiting, const Control& control, std::string if_lost);

  // Same as ArenaAllocator::Allocate, but collects ended operations first if the arena is full.
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes);
  // At once, or when no operation uses the range any more. False if no allocated range starts
  // there.
  bool Free(std::uint64_t offset);

  // RESOURCE_EXHAUSTED: too many in flight, or no room for the table of counts. INVALID_ARGUMENT:
  // not memory of one buffer. `waits`: the caller is about to wait, so this checks for the other
  // ranks at once; ticket 0 means that they have met, and the operation has ended.
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
  using Lock = InFlight::Lock;
  static constexpr std::uint64_t kNever = UINT64_MAX;
  // The daemon enforces an operation's deadline. This long after it, the daemon is asked why the
  // operation has not ended.
  static constexpr std::uint64_t kOverdueAfterNs = 8'000'000'000;
  enum class Awaited : std::uint8_t { kEnded, kOverdue, kInterrupted, kUnknown };

  // All but Begin are called with the mutex held; those that take the lock release it in between.
  Refusal Begin(const Submission& call, bool waits, std::uint64_t& ticket);
  Refusal Pin(const Submission& call, ArenaAllocator::Pins& pins);
  bool IsKnown(const Submission& call) const;
  static std::uint64_t FirstAsk(OperationKind kind, std::uint64_t now);
  void WaitOnPage(Lock& lock, std::uint64_t ticket, std::uint64_t now, std::uint64_t until_ns);
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

  mutable std::mutex mutex_;
  InFlight in_flight_;
  RecentBuffers recent_;
  // One for each range of sizes: waits of milliseconds say nothing about waits of microseconds.
  std::array<queue::AdaptiveSpin, 3> spins_;
  bool pages_untaken_ = false;  // The doorbell may have some.
  std::uint64_t doorbell_heard_ns_ = 0;
};

}  // namespace mlxcomm::client

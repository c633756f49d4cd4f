// A session's operations in flight, and what ends them.
//
//   Add ─▶ on a page or with the daemon ─completion, page, lost daemon─▶ outcome
//   outcome ─TakeOutcome, or abandoned─▶ gone
//
// Owner: Calls. Thread: any, with the session's mutex held; functions that are given its lock
// release it in between. Memory: an entry for each operation in flight, allocated once.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "client/lib/arena_allocator.h"
#include "client/lib/pages.h"
#include "client/lib/queue.h"
#include "client/lib/ticket_table.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

struct Outcome {
  Failure failure;
  bool group_failed = false;
};

// An operation is on a page, with the daemon, or has an outcome.
struct Pending {
  Meeting::Operation operation;
  ArenaAllocator::Pins pins;  // Its input, its output and its table of counts.
  std::uint64_t bytes = 0;    // Read and written.
  std::uint64_t began_ns = 0;
  std::uint64_t ask_ns = 0;      // When to ask the daemon which ranks it waits for.
  std::uint64_t due_ns = 0;      // Its deadline, which the daemon keeps unless it is on a page.
  std::uint64_t overdue_ns = 0;  // When to ask the daemon why it has not ended.
  bool is_watched = false;       // A thread waits on the page for it.
  bool is_abandoned = false;     // No thread waits any more.
  std::optional<Outcome> outcome;

  OperationKind kind() const { return operation.entry.kind; }
  bool on_page() const { return operation.page != nullptr; }
};

class InFlight final : public TicketTable<Pending> {
 public:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::uint32_t kMost = queue::kCompletionSlots - 1;

  // `if_lost` is what the user can do once the daemon is lost.
  InFlight(Queue& queue, Pages& pages, ArenaAllocator& allocator, std::string if_lost);

  // nullptr: none that a thread may wait for.
  Pending* FindOpen(std::uint64_t ticket);
  Pending* FindOpen(std::uint64_t group, std::uint64_t ticket);
  bool TakeOutcome(std::uint64_t ticket, Outcome& outcome);

  void EndOnPage(Pending& pending, meeting::Progress progress, std::uint64_t now);
  // Leaves an operation that another thread watches to that thread. `is_closed`: the daemon has
  // closed the page, so all operations are decided there, unless another process has overwritten
  // the page.
  meeting::Progress LookAtPage(Pending& pending, bool is_closed = false);
  // The daemon's answer is a completion without a ticket. If the ring is full, the next attempt
  // asks.
  void AskToClose(Lock& lock, std::uint64_t group);

  // Ends the operations that have met and that no thread watches.
  void Sweep();
  // Also takes the completions that have come.
  void Collect();
  void TakeCompletions();
  // Requires that no thread reads. Returns whether it rang.
  bool HearDoorbell();
  // Returns with the lock held, once there may be a completion, or after a while.
  void ReadOrSleep(Lock& lock, std::uint64_t until_ns);

  // Ends all operations. The first reason stays.
  void LoseDaemon(const std::string& why);
  // Why the connection is unusable; ok while it works.
  const Failure& lost() const { return lost_; }

 private:
  void Settle(const queue::CompletionEntry& entry);
  void OnRung(const Queue::Rung& rung);

  Queue& queue_;
  Pages& pages_;
  ArenaAllocator& allocator_;
  const std::string if_lost_;
  bool close_asked_ = false;  // The daemon has not answered yet.
  Failure lost_;
};

}  // namespace mlxcomm::client

// One session with the daemon: its memory, its queue, and the threads that wait.
//
// One mutex is for all of it, the submission ring's single producer too; an operation that meets the
// other ranks at once on their page takes it once. Of the waiting threads, one at a time reads the
// completion ring (README.md, Threads).
//
//   reader: spin for a bounded, learnt time ─▶ sleep on the doorbell ─▶ ...
//
// The ranges of the arena that an operation reads or writes are pinned before the mutex under which it
// was submitted is released, until the daemon has reported its end. What has ended by then needs no
// pins, because freeing a buffer takes the mutex as well.
//
// Owner: the C handle. Thread: any. Memory: two mappings; an entry for each operation in flight.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/lib/arena_allocator.h"
#include "client/lib/attach_table.h"
#include "client/lib/first_looks.h"
#include "client/lib/meeting.h"
#include "client/lib/mlxcomm.h"
#include "client/lib/ticket_table.h"
#include "proto/queue/adaptive_spin.h"
#include "proto/queue/dial.h"
#include "proto/queue/ring.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

struct Member {
  std::string node;
  std::uint64_t pid = 0;
};

struct GroupFacts {
  std::uint64_t id = 0;
  std::uint32_t rank = 0;
  std::uint64_t timeout_default_ns = 0;
  std::string name;
  std::vector<Member> members;  // In order of rank.
};

// Why something was refused; mostly nothing. For what each small operation passes through: an empty
// Failure takes many times as long to return.
using Refusal = std::optional<Failure>;

// The daemon keeps an operation's deadline. So long after it, it is asked why the end has not come.
inline constexpr std::uint64_t kOverdueAfterNs = 8'000'000'000;
// When a wait is reported on standard error, first and again.
inline constexpr std::uint64_t kReportAfterNs = 10'000'000'000;
inline constexpr std::uint64_t kReportAgainNs = 60'000'000'000;
// When the daemon is first asked about a message, and again until 2 s have passed: whether the ranks that it
// waits for wait as well, in a circle, which is reported at once.
inline constexpr std::uint64_t kAskCircleNs = 1'000'000'000;
inline constexpr std::uint64_t kAskCircleAgainNs = 400'000'000;
// How often the daemon is asked whether a job that forms has its other half under another name.
inline constexpr std::uint64_t kAskOtherHalfNs = 2'000'000'000;

class Connection {
 public:
  static constexpr std::uint32_t kInFlightMax = queue::kCompletionSlots - 1;

  static Failure Open(const mlxcomm_connect_options& options, std::unique_ptr<Connection>& out);
  ~Connection();

  const ArenaAllocator& arena() const { return *allocator_; }
  // As the allocator's; where there is no room, first checks whether operations that no thread
  // waits for any more have ended.
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes);
  // At once, or when no operation uses it any more. False: not the start of an allocated range.
  bool Free(std::uint64_t offset);
  std::byte* arena_data() const { return arena_; }
  bool Contains(const void* data, std::uint64_t bytes) const;
  std::uint64_t OffsetOf(const void* data) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - arena_);
  }

  // Calls to the daemon. A timeout of 0 is the daemon's default; named_by is AttachRequest's.
  Failure Join(const char* job, std::uint32_t rank, std::uint32_t size, std::uint64_t timeout_ns,
               const std::string& named_by, GroupFacts& facts);
  struct SplitCall {
    std::uint64_t parent = 0;
    std::uint64_t number = 0;
    std::span<const std::uint32_t> ranks;
    const char* name = "";
    std::uint32_t own_index = 0;  // Of this process in `ranks`.
  };
  Failure Split(const SplitCall& call, std::uint64_t timeout_ns, GroupFacts& facts);
  Failure Shrink(std::uint64_t group, std::uint64_t timeout_ns, GroupFacts& facts);
  void Release(std::uint64_t group);
  void Leave(const char* why);  // NULL: in order; else because of that fault.

  // Why nothing works any more; ok while it works.
  Failure Lost() const;

  struct Outcome {
    Failure failure;
    bool group_failed = false;
  };
  // The bytes that the daemon reads and writes; the entry has the offsets.
  struct Extent {
    std::uint64_t input_bytes = 0;
    std::uint64_t output_bytes = 0;
  };
  struct Caller {
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
  };
  // Fills in the ticket, here and in the entry, and where a table of counts lies.
  // RESOURCE_EXHAUSTED: too many in flight, or no room for the table. INVALID_ARGUMENT: not memory
  // of one buffer. `waits`: the caller will wait for it, so the other ranks are looked for at once. A
  // ticket of 0: they have met, and it has ended.
  Refusal Submit(queue::SubmissionEntry& entry, Caller caller, Extent extent,
                 std::span<const std::uint64_t> counts, std::uint64_t timeout_ns, bool waits,
                 std::uint64_t& ticket);
  // As Submit and Wait; nullopt: all ranks have met at once, and no other thread saw the operation.
  std::optional<Outcome> CarryOut(queue::SubmissionEntry& entry, Caller caller, Extent extent,
                                  std::span<const std::uint64_t> counts, std::uint64_t timeout_ns);
  // An operation of a group of one rank: its output is its input.
  Refusal CopyAlone(const queue::SubmissionEntry& entry, Extent extent);

  // Each uses the ticket up, unless the operation goes on: nullopt, DEADLINE_EXCEEDED of Cancel.
  Outcome Wait(std::uint64_t group, std::uint64_t ticket);
  std::optional<Outcome> Test(std::uint64_t group, std::uint64_t ticket);
  Outcome Cancel(std::uint64_t group, std::uint64_t ticket, std::uint64_t timeout_ns);
  // Nobody waits for it for now, so nothing is asked or reported about it, until Wait.
  void GoOn(std::uint64_t group, std::uint64_t ticket);

  void NoteCopiedResult(std::uint64_t bytes, std::uint64_t nanoseconds);

  // By the daemon's hello and this process's cores.
  const queue::SchedulingPolicy& scheduling() const { return scheduling_; }
  // The daemon ends with its last client, and another one is started for the next.
  bool is_private() const { return is_private_; }
  // False in a forked child, which must not touch the parent's locks and memory.
  bool usable() const;

 private:
  struct Pending {
    std::uint64_t group = 0;
    OperationKind kind = OperationKind::kBarrier;
    ArenaAllocator::Pins pins;     // Its input, its output and its table of counts.
    std::uint64_t bytes = 0;       // Read and written.
    std::uint64_t overdue_ns = 0;  // When the daemon is asked why it has not ended.
    std::uint64_t began_ns = 0;
    std::uint64_t ask_ns = 0;  // When to ask the daemon whom it waits for; kNeverAsk: it goes on.
    std::uint64_t due_ns = 0;  // Its own deadline, which the daemon keeps unless it is on a page.
    bool abandoned = false;    // No thread waits any more.
    bool is_collective = false;
    std::uint64_t number = 0;  // Of a collective.
    // Where it is on a page: until it has ended, or the daemon has taken it over.
    Meeting* meeting = nullptr;
    Meeting::Operation met;
    bool waits = false;  // A thread waits on the page for it.
    std::optional<Outcome> outcome;
  };
  struct GroupCalls {
    std::uint64_t called = 0;            // Before there was a page.
    Meeting* meeting = nullptr;          // Once there is one.
    std::uint64_t pages_seen = 0;        // Of pages_, when this group's was last looked for.
    std::vector<std::uint64_t> refused;  // Numbers of calls that could not be taken back yet.
  };

  explicit Connection(mlxcomm_interrupt interrupt);
  Failure Reach(const mlxcomm_connect_options& options, queue::Dialed& dialed);
  Failure Map(queue::Dialed& dialed);
  Refusal SubmitEntry(queue::SubmissionEntry& entry, Caller caller, Extent extent, bool has_table,
                      std::uint64_t timeout_ns, bool waits, std::uint64_t& ticket);
  void GiveUp(std::uint64_t ticket);
  // Whether what it reads and writes lies in buffers that are known from an operation before.
  bool Knows(const queue::SubmissionEntry& entry, Extent extent) const {
    return (extent.input_bytes == 0 || Knows({entry.input_offset, extent.input_bytes})) &&
           (extent.output_bytes == 0 || Knows({entry.output_offset, extent.output_bytes}));
  }
  bool Knows(const ArenaAllocator::Part& part) const;
  void NoteKnown(const ArenaAllocator::Pins& pins);
  // The functions on pages are called with mutex_ held.
  GroupCalls& CallsOf(std::uint64_t group);
  meeting::Way NumberCollective(queue::SubmissionEntry& entry, Caller caller, Extent extent,
                                std::uint64_t now, Pending& pending);
  void TakePage(int descriptor);
  void TakePages();
  bool HearDoorbell();
  void HearDoorbellNowAndThen(std::uint64_t now);
  void SweepPages();
  void DecideOnPage(Pending& pending);
  void ForgetGroup(std::uint64_t group);
  void EndOnPage(Pending& pending, meeting::Progress progress, std::uint64_t now);
  bool MeetsAtOnce(Pending& pending);
  void DropLeftPages();
  void TakeBack(const Pending& refused);
  void WaitOnPage(std::unique_lock<std::mutex>& lock, std::uint64_t group, std::uint64_t ticket,
                  std::uint64_t began, std::uint64_t until_ns);
  void AskToClose(std::unique_lock<std::mutex>& lock, std::uint64_t group);
  enum class Awaited : std::uint8_t { kEnded, kOverdue, kInterrupted, kUnknown };
  // kOverdue: it is still in flight at until_ns, or, where that is kNoEnd, long after its deadline. Only
  // without an end is the wait reported, and interrupted.
  static constexpr std::uint64_t kNoEnd = UINT64_MAX;
  Awaited Await(std::unique_lock<std::mutex>& lock, std::uint64_t group, std::uint64_t ticket,
                std::uint64_t until_ns, Outcome& outcome);
  Outcome EndOverdue(std::unique_lock<std::mutex>& lock, std::uint64_t group, std::uint64_t ticket);
  // Called with mutex_ held.
  Pending* Find(std::uint64_t group, std::uint64_t ticket);
  bool TakeOutcome(std::uint64_t ticket, Outcome& outcome);
  void TakeCompletions();
  void Settle(const queue::CompletionEntry& entry);
  void LoseDaemon(const std::string& why);
  Refusal PinRanges(const queue::SubmissionEntry& entry, Extent extent, bool has_table,
                    ArenaAllocator::Pins& pins);
  bool LookFirst(std::unique_lock<std::mutex>& lock, const queue::SpinLimits& limits,
                 std::uint64_t until_ns);
  void ReadOrSleep(std::unique_lock<std::mutex>& lock, std::uint64_t until_ns);
  bool Interrupted() const {
    return interrupt_.interrupted != nullptr && interrupt_.interrupted(interrupt_.context) != 0;
  }
  static constexpr std::uint64_t kNeverAsk = UINT64_MAX;
  static std::uint64_t NextAsk(const Pending& pending, std::uint64_t now);
  void ReportAwaited(std::unique_lock<std::mutex>& lock, std::uint64_t group, std::uint64_t ticket,
                     std::uint64_t waited_ns);

  int creator_pid_ = 0;
  bool is_private_ = false;
  int doorbell_ = -1;
  std::byte* arena_ = nullptr;
  std::uint64_t arena_bytes_ = 0;
  queue::SchedulingPolicy scheduling_;
  std::uint64_t rendezvous_timeout_ns_ = 0;  // The daemon's; 0: it did not say.
  std::byte* queue_ = nullptr;
  std::unique_ptr<ArenaAllocator> allocator_;
  const mlxcomm_attach_table* attach_ = nullptr;
  mlxcomm_attachment* attachment_ = nullptr;
  mlxcomm_interrupt interrupt_{};

  mutable std::mutex mutex_;
  std::optional<queue::SubmissionProducer> submissions_;
  std::condition_variable settled_;
  std::optional<queue::CompletionConsumer> completions_;
  TicketTable<Pending> pending_{kInFlightMax};
  bool reader_present_ = false;
  // By size: waits of milliseconds say nothing about waits of microseconds.
  std::array<queue::AdaptiveSpin, 3> spins_;
  queue::AdaptiveSpin page_spin_;  // Waits on pages.
  FirstLooks page_looks_;
  // Buffers of the last calls that met at once, which have not been freed since. To look there costs less
  // than the allocator's mutex, twice, and its search.
  std::array<ArenaAllocator::Part, 4> known_{};
  std::size_t known_next_ = 0;
  bool meets_ = true;  // MLXCOMM_RANKS_MEET=0: no page is used.
  std::map<std::uint64_t, std::unique_ptr<Meeting>> pages_;  // By group.
  std::vector<std::unique_ptr<Meeting>> left_pages_;  // Of groups that were left, still in use.
  std::uint64_t pages_taken_ = 0;
  bool pages_untaken_ = false;  // There may be some in the doorbell.
  using CallsOfGroups = std::unordered_map<std::uint64_t, GroupCalls>;
  CallsOfGroups calls_;
  CallsOfGroups::value_type* recent_calls_ = nullptr;  // Of the group that called last.
  bool close_asked_ = false;                           // Of the daemon, which has not answered yet.
  std::uint64_t doorbell_heard_ns_ = 0;
  Failure lost_;  // Latched.
};

std::uint64_t NowNs();
// MLXCOMM_QUIET: nothing is written to standard error.
bool IsQuiet();

}  // namespace mlxcomm::client

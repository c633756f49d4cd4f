// The layout of the shared memory between a client and its daemon.
//
//   queue segment:  [QueueHeader][submission entries ...][completion entries ...]
//   arena segment:  the client's buffers, laid out by the client
//
// The daemon makes both segments and passes them in the hello (hello.h), so neither side has to
// trust the other for their size. The reader copies a slot once, and checks and uses only the copy,
// because the other side may write to the memory at any time.
//
// Owner: the daemon's session makes it, both map it. Thread: see ring.h. Memory: offsets only,
// never pointers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/types/failure.h"
#include "proto/types/operation.h"

namespace mlxcomm::queue {

inline constexpr std::uint64_t kQueueMagic = 0x6d6c78636f6d6d71;  // "mlxcommq"
inline constexpr std::uint32_t kQueueVersion = 4;
inline constexpr std::size_t kSlotAlignment = 64;
inline constexpr std::uint32_t kSubmissionSlots = 1024;  // Powers of two.
inline constexpr std::uint32_t kCompletionSlots = 1024;

// Requests besides kOperate are for groups whose ranks meet on a page (proto/meeting/page.h).
enum class SubmissionPurpose : std::uint8_t {
  kOperate = 0,
  kOperateAndClose = 1,  // Other ranks may have called the operation on the page.
  kClose = 2,            // Uses only `group`. Its completion has the ticket 0.
};

// One rank's part of an operation. The fields determine what it reads and writes
// (proto/types/operation_shape.h).
struct alignas(kSlotAlignment) SubmissionEntry {
  std::uint64_t ticket;         // The client's number for it, returned in the completion.
  std::uint64_t group;          // Taken from AttachReply or GroupReply.
  std::uint64_t input_offset;   // Bytes from the arena's start; 0 if unused.
  std::uint64_t output_offset;  // Same.
  std::uint64_t count;          // Elements. all_gather_v, all_to_all_v: the offset in the arena of
                                // their table of counts (uint64), in bytes.
  std::uint64_t timeout_ns;     // Starts when the daemon reads the entry; 0 = the daemon's default.
  std::uint32_t peer_rank;      // send: destination; recv: source; a root; otherwise 0.
  // send and recv: their tag; collectives: the lower half of the number that the rank has called
  // before.
  std::uint32_t tag;
  OperationKind kind;
  DataType data_type;
  ReduceOperator reduce_operator;
  PlanKind plan;  // Forces a plan, for tests and benchmarks; the same on all ranks.
  SubmissionPurpose purpose;
  // A digest of a collective's call site, the same on all ranks (MLXCOMM_CHECK); 0: unknown.
  std::uint8_t check[3];

  std::uint32_t check_word() const {
    return check[0] | std::uint32_t{check[1]} << 8 | std::uint32_t{check[2]} << 16;
  }
  void set_check_word(std::uint32_t word) {
    for (int i = 0; i < 3; ++i) check[i] = static_cast<std::uint8_t>(word >> 8 * i);
  }
};
static_assert(sizeof(SubmissionEntry) == 64);
static_assert(std::is_trivially_copyable_v<SubmissionEntry>);

// The end of one operation. On success only the first cache line is used.
struct alignas(kSlotAlignment) CompletionEntry {
  std::uint64_t ticket;
  std::uint64_t group;
  std::int32_t rank_at_fault;   // kNoRank if not known.
  std::uint16_t message_bytes;  // <= kFailureMessageBytesMax; UTF-8, no terminator.
  std::uint8_t failure_code;    // FailureCode; 0 = success.
  std::uint8_t group_failed;    // 1: the failure is latched for the whole group.
  std::uint8_t reserved[16];
  char message[kFailureMessageBytesMax];
};
inline constexpr std::size_t kCompletionHeadBytes = offsetof(CompletionEntry, message);
static_assert(sizeof(CompletionEntry) == 512 && kCompletionHeadBytes < kSlotAlignment);
static_assert(std::is_trivially_copyable_v<CompletionEntry>);

// Positions count entries since the start and never wrap (64 bits); the slot is
// position % slots. Each line is written by one side only.
struct alignas(kSlotAlignment) RingPositions {
  alignas(kSlotAlignment) std::atomic<std::uint64_t> written;  // Producer.
  alignas(kSlotAlignment) std::atomic<std::uint64_t> read;     // Consumer.
  // Consumer: 1 while it sleeps and needs the doorbell.
  alignas(kSlotAlignment) std::atomic<std::uint32_t> consumer_sleeps;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(RingPositions) == 192);

// The client's report for status: results that it copied out of the arena, because the program
// cannot compute in the arena's memory.
struct alignas(kSlotAlignment) CopiedResults {
  std::atomic<std::uint64_t> results;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> nanoseconds;
};

// The client keeps pages of the arena that a device has registered (daemon/intake/arena_pages.h).
struct alignas(kSlotAlignment) ArenaPages {
  alignas(kSlotAlignment) std::atomic<std::uint32_t> registered;   // Set by the daemon.
  alignas(kSlotAlignment) std::atomic<std::uint32_t> giving_back;  // Set by the client.
};

struct alignas(kSlotAlignment) QueueHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t submission_slots;
  std::uint32_t completion_slots;
  std::uint32_t reserved;  // Zero.
  RingPositions submissions;
  RingPositions completions;
  ArenaPages arena_pages;
  CopiedResults copied_results;
};

inline constexpr std::size_t kSubmissionsOffset = 4096;
inline constexpr std::size_t kCompletionsOffset =
    kSubmissionsOffset + kSubmissionSlots * sizeof(SubmissionEntry);
inline constexpr std::size_t kQueueSegmentBytes =
    kCompletionsOffset + kCompletionSlots * sizeof(CompletionEntry);
static_assert(sizeof(QueueHeader) <= kSubmissionsOffset);
static_assert(kQueueSegmentBytes % 4096 == 0);

}  // namespace mlxcomm::queue

// The layout of a group's page: the shared memory in which ranks on one node run small operations
// without their daemon.
//
//   [PageHeader] [RankArea of rank 0] [RankArea of rank 1] ... [cells of rank 0] [of rank 1] ...
//
// Any rank may write anything to a page, so every reader copies what it reads and checks the copy.
// README.md lists the writers. The daemon writes `turn`, `announced`, `adopted_plus_one` and the
// header.
//
// Owner: the daemon's DirectGroups makes it. Thread: see rank_side.h and supervisor_side.h. Memory:
// offsets only, never pointers; the system allocates it on first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/queue/layout.h"

namespace mlxcomm::meeting {

inline constexpr std::uint64_t kPageMagic = 0x6d6c78636f6d6d70;  // "mlxcommp"
// Changes with the layout, because ranks of one job may run different releases.
inline constexpr std::uint32_t kPageVersion = 2;
// A cache line (128 bytes on Apple's processors), or two that are fetched together.
inline constexpr std::size_t kLine = 128;
// The most operations of a rank in flight; the next one goes to the daemon.
inline constexpr std::uint32_t kGenerations = 8;
inline constexpr std::size_t kInlineBytes = 104;
// The largest contribution of a rank. The daemon makes one copy fewer of larger ones.
inline constexpr std::size_t kCellBytes = std::size_t{64} * 1024;
inline constexpr std::uint32_t kRanksMax = 64;
inline constexpr std::size_t kRecords = 128;

// The part of a call that must be equal on all ranks. Never all zero.
struct CallWords {
  static constexpr int kCheckAt = 40;  // Counts on a page are far smaller.

  std::uint64_t what = 0;
  std::uint64_t count_and_check = 0;

  // WordsOf's arguments; a process may have written invalid ones.
  constexpr std::uint32_t root() const { return static_cast<std::uint32_t>(what >> 32); }
  constexpr OperationKind kind() const { return static_cast<OperationKind>(what >> 16 & 0xff); }
  constexpr DataType type() const { return static_cast<DataType>(what >> 8 & 0xff); }
  constexpr ReduceOperator op() const { return static_cast<ReduceOperator>(what & 0xff); }
  constexpr std::uint64_t count() const {
    return count_and_check & ((std::uint64_t{1} << kCheckAt) - 1);
  }

  friend bool operator==(const CallWords&, const CallWords&) = default;
};
// Replaces the call if the rank's operation goes to the daemon.
inline constexpr CallWords kByDaemon{~std::uint64_t{0}, ~std::uint64_t{0}};

constexpr CallWords WordsOf(OperationKind kind, DataType type, ReduceOperator op,
                            std::uint32_t root, std::uint64_t count, std::uint32_t check = 0) {
  return {std::uint64_t{root} << 32 | std::uint64_t{static_cast<std::uint8_t>(kind)} << 16 |
              std::uint64_t{static_cast<std::uint8_t>(type)} << 8 | static_cast<std::uint8_t>(op),
          count | std::uint64_t{check} << CallWords::kCheckAt};
}

// The destination of a rank's next collective.
enum class TurnMode : std::uint8_t {
  kOpen = 0,       // The page.
  kClosed = 1,     // The daemon.
  kReopening = 2,  // The daemon; from PageHeader::reopens_at on the page.
};
// The number of collectives a rank has called, and the mode: one word, so that the daemon can stop
// a rank between two calls.
struct Turn {
  static constexpr std::uint64_t kOpenings = 1 << 14;

  std::uint64_t called = 0;
  TurnMode mode = TurnMode::kClosed;
  // Counts openings modulo kOpenings, so that a rank's word from an earlier opening never matches.
  std::uint64_t opening = 0;

  constexpr std::uint64_t word() const {
    return called << 16 | opening << 2 | static_cast<std::uint8_t>(mode);
  }
  static constexpr Turn Of(std::uint64_t word) {
    return {word >> 16, (word & 3) <= 2 ? static_cast<TurnMode>(word & 3) : TurnMode::kClosed,
            word >> 2 & (kOpenings - 1)};
  }
};

// A rank's operation, for the other ranks, with a small contribution inline.
struct alignas(kLine) Slot {
  // (The operation's number plus one) times two. Flipping the lowest bit, which has no meaning,
  // wakes sleepers.
  std::atomic<std::uint64_t> announced;
  CallWords call;
  // For a larger contribution, the first byte is the index of the rank's cell that holds it.
  std::byte inline_bytes[kInlineBytes];
};
static_assert(sizeof(Slot) == kLine);

constexpr std::uint64_t AnnouncedWord(std::uint64_t number) { return (number + 1) << 1; }
constexpr bool Announces(std::uint64_t word, std::uint64_t number) {
  return (word & ~std::uint64_t{1}) == AnnouncedWord(number);
}

// The same operation, for the daemon.
struct alignas(kLine) Offer {
  // The submission for the daemon. Valid if `number_plus_one` is the operation's.
  queue::SubmissionEntry entry;
  std::atomic<std::uint64_t> called_ns;  // The system's monotonic clock.
  std::atomic<std::uint64_t> number_plus_one;
  // Set by the daemon when it takes over the operation.
  std::atomic<std::uint64_t> adopted_plus_one;
  // Not 0: another rank sleeps until this rank announces an operation in this slot.
  std::atomic<std::uint32_t> sleepers;
};
static_assert(sizeof(Offer) == kLine);

// A rank's completed operation on the page, for status, record and metrics.
struct alignas(64) MetRecord {
  std::uint64_t number_plus_one;
  std::uint64_t began_ns;  // The system's monotonic clock.
  std::uint64_t ended_ns;
  CallWords call;
  std::uint64_t reserved[3];
};
static_assert(sizeof(MetRecord) == 64);

inline constexpr std::size_t kTallyBuckets = 12;
inline constexpr std::size_t kTalliesASide = 16;
// The longest duration that counts in the bucket; the last bucket has all longer ones.
constexpr std::uint64_t TallyBoundNs(std::size_t bucket) {
  return std::uint64_t{16'000} << (2 * bucket);
}
// Completed operations of one kind and type on the page, for metrics.
struct alignas(kLine) MetTally {
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> duration_ns;
  std::atomic<std::uint64_t> buckets[kTallyBuckets];  // Same as in record::OperationCounts.
};
static_assert(sizeof(MetTally) == kLine);

struct alignas(kLine) RankArea {
  alignas(kLine) std::atomic<std::uint64_t> turn;
  // All operations below this number that the rank called on the page have ended on this rank.
  std::atomic<std::uint64_t> done;
  std::atomic<std::uint64_t> met;    // The number of operations that ended on the page.
  std::atomic<std::uint32_t> ready;  // 1: the rank has mapped the page.
  Slot slots[kGenerations];
  Offer offers[kGenerations];
  MetRecord records[kRecords];                     // The n-th record is at n % kRecords.
  MetTally tallies[kTalliesASide][kTalliesASide];  // Indexed by kind and type.
};

struct alignas(kLine) PageHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ranks;
  std::uint64_t group;
  alignas(kLine) std::atomic<std::uint64_t> reopens_at;
};

inline constexpr std::size_t kAreasOffset = 4096;
static_assert(sizeof(PageHeader) <= kAreasOffset && std::is_standard_layout_v<RankArea>);

constexpr std::size_t CellsOffset(std::uint32_t ranks) {
  const std::size_t areas = kAreasOffset + ranks * sizeof(RankArea);
  return (areas + kAreasOffset - 1) / kAreasOffset * kAreasOffset;
}
constexpr std::size_t PageBytes(std::uint32_t ranks) {
  return CellsOffset(ranks) + std::size_t{ranks} * kGenerations * kCellBytes;
}

class PageView {
 public:
  PageView() = default;
  PageView(std::byte* base, std::uint32_t ranks) : base_(base), ranks_(ranks) {}

  std::uint32_t ranks() const { return ranks_; }
  PageHeader& header() const { return *reinterpret_cast<PageHeader*>(base_); }
  RankArea& area(std::uint32_t rank) const {
    return *reinterpret_cast<RankArea*>(base_ + kAreasOffset + rank * sizeof(RankArea));
  }
  static std::uint32_t IndexOf(std::uint64_t number) { return number % kGenerations; }
  Slot& slot(std::uint32_t rank, std::uint64_t number) const {
    return area(rank).slots[IndexOf(number)];
  }
  Offer& offer(std::uint32_t rank, std::uint64_t number) const {
    return area(rank).offers[IndexOf(number)];
  }
  std::byte* cell(std::uint32_t rank, std::size_t index) const {
    return base_ + CellsOffset(ranks_) + (std::size_t{rank} * kGenerations + index) * kCellBytes;
  }
  // The contribution of a rank that has announced the operation; `bytes` is its size.
  std::byte* contribution(std::uint32_t rank, std::uint64_t number, std::uint64_t bytes) const {
    std::byte* const inside = slot(rank, number).inline_bytes;
    return bytes <= kInlineBytes
               ? inside
               : cell(rank, std::to_integer<std::size_t>(inside[0]) % kGenerations);
  }

 private:
  std::byte* base_ = nullptr;
  std::uint32_t ranks_ = 0;
};

}  // namespace mlxcomm::meeting

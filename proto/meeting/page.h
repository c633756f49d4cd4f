// The memory in which the ranks of a group that all lie on one node carry out small operations by
// themselves, byte by byte.
//
//   [PageHeader] [RankArea of rank 0] [RankArea of rank 1] ... [cells of rank 0] [cells of rank 1] ...
//
// README.md says who may write what. What stands in a page is what some rank wrote there, so
// everybody copies it and checks the copy. The daemon writes `turn`, `announced`, `adopted` and the
// header.
//
// Owner: the daemon's DirectGroups makes it. Thread: see rank_side.h and supervisor_side.h. Memory:
// offsets only, never pointers; pages of it exist once they have been touched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/queue/layout.h"

namespace mlxcomm::meeting {

inline constexpr std::uint64_t kPageMagic = 0x6d6c78636f6d6d70;  // "mlxcommp"
// Higher with every change of what lies where: ranks of one job may have different releases.
inline constexpr std::uint32_t kPageVersion = 2;
// A cache line, or two that are fetched together; Apple's are 128 bytes long.
inline constexpr std::size_t kLine = 128;
// At most that many operations of a rank may be under way; the next one goes to the daemon.
inline constexpr std::uint32_t kGenerations = 8;
inline constexpr std::size_t kInlineBytes = 104;
// The largest contribution of a rank. Larger ones would be copied once more than by the daemon.
inline constexpr std::size_t kCellBytes = std::size_t{64} * 1024;
inline constexpr std::uint32_t kRanksMax = 64;
inline constexpr std::size_t kRecords = 128;

// What all ranks must call alike, as it is compared. Never both zero.
struct CallWords {
  static constexpr int kCheckAt = 40;  // Counts on a page are far smaller.

  std::uint64_t what = 0;
  std::uint64_t count_and_check = 0;

  // What WordsOf was given; a process may have written any number.
  constexpr std::uint32_t root() const { return static_cast<std::uint32_t>(what >> 32); }
  constexpr OperationKind kind() const { return static_cast<OperationKind>(what >> 16 & 0xff); }
  constexpr DataType type() const { return static_cast<DataType>(what >> 8 & 0xff); }
  constexpr ReduceOperator op() const { return static_cast<ReduceOperator>(what & 0xff); }
  constexpr std::uint64_t count() const {
    return count_and_check & ((std::uint64_t{1} << kCheckAt) - 1);
  }

  friend bool operator==(const CallWords&, const CallWords&) = default;
};
// In place of a call: the rank has called an operation that goes to the daemon.
inline constexpr CallWords kByDaemon{~std::uint64_t{0}, ~std::uint64_t{0}};

constexpr CallWords WordsOf(OperationKind kind, DataType type, ReduceOperator op,
                            std::uint32_t root, std::uint64_t count, std::uint32_t check = 0) {
  return {std::uint64_t{root} << 32 | std::uint64_t{static_cast<std::uint8_t>(kind)} << 16 |
              std::uint64_t{static_cast<std::uint8_t>(type)} << 8 | static_cast<std::uint8_t>(op),
          count | std::uint64_t{check} << CallWords::kCheckAt};
}

// How many collectives a rank has called, and where the next one goes. One word, so that the daemon
// can stop a rank between two calls.
enum class TurnMode : std::uint8_t {
  kOpen = 0,       // To the page.
  kClosed = 1,     // To the daemon.
  kReopening = 2,  // To the daemon, but from PageHeader::reopens_at on to the page.
};
struct Turn {
  static constexpr std::uint64_t kOpenings = 1 << 14;

  std::uint64_t called = 0;
  TurnMode mode = TurnMode::kClosed;
  // Which one it is, modulo kOpenings: what a rank has read in one must not hold in the next.
  std::uint64_t opening = 0;

  constexpr std::uint64_t word() const {
    return called << 16 | opening << 2 | static_cast<std::uint8_t>(mode);
  }
  static constexpr Turn Of(std::uint64_t word) {
    return {word >> 16, (word & 3) <= 2 ? static_cast<TurnMode>(word & 3) : TurnMode::kClosed,
            word >> 2 & (kOpenings - 1)};
  }
};

// One operation of one rank, for the other ranks: in its first line also what a small one brings.
struct alignas(kLine) Slot {
  // The number of the operation whose contribution lies here, plus one, twice; the lowest bit
  // means nothing and is turned to wake those who sleep on it.
  std::atomic<std::uint64_t> announced;
  CallWords call;
  // If it brings more, the first one says in which of the rank's cells it lies.
  std::byte inline_bytes[kInlineBytes];
};
static_assert(sizeof(Slot) == kLine);

constexpr std::uint64_t AnnouncedWord(std::uint64_t number) { return (number + 1) << 1; }
constexpr bool Announces(std::uint64_t word, std::uint64_t number) {
  return (word & ~std::uint64_t{1}) == AnnouncedWord(number);
}

// The same operation, for its rank and the daemon.
struct alignas(kLine) Offer {
  // As it would be submitted. Valid if `number_plus_one` names the operation.
  queue::SubmissionEntry entry;
  std::atomic<std::uint64_t> called_ns;  // By the system's monotonic clock.
  std::atomic<std::uint64_t> number_plus_one;
  // Daemon: the number, plus one, of the operation that it has taken over from here.
  std::atomic<std::uint64_t> adopted_plus_one;
  // Not 0: another rank sleeps until this slot is announced again.
  std::atomic<std::uint32_t> sleepers;
};
static_assert(sizeof(Offer) == kLine);

// An operation that has ended on the page, for status, record and metrics.
struct alignas(64) MetRecord {
  std::uint64_t number_plus_one;
  std::uint64_t began_ns;  // The system's monotonic clock.
  std::uint64_t ended_ns;
  CallWords call;
  std::uint64_t reserved[3];
};
static_assert(sizeof(MetRecord) == 64);

// Operations of one kind and type that have ended on the page, for metrics.
inline constexpr std::size_t kTallyBuckets = 12;
inline constexpr std::size_t kTalliesASide = 16;
// The longest duration that counts in the bucket; the last one has the rest.
constexpr std::uint64_t TallyBoundNs(std::size_t bucket) {
  return std::uint64_t{16'000} << (2 * bucket);
}
struct alignas(kLine) MetTally {
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> duration_ns;
  std::atomic<std::uint64_t> buckets[kTallyBuckets];  // As record::OperationCounts has them.
};
static_assert(sizeof(MetTally) == kLine);

struct alignas(kLine) RankArea {
  alignas(kLine) std::atomic<std::uint64_t> turn;
  // Of all operations that this rank called on the page, those below it have ended here.
  std::atomic<std::uint64_t> done;
  std::atomic<std::uint64_t> met;    // Operations that ended on the page: how many there were,
  std::atomic<std::uint32_t> ready;  // 1: the rank has mapped the page.
  Slot slots[kGenerations];
  Offer offers[kGenerations];
  MetRecord records[kRecords];                     // The n-th of them lies at n % kRecords.
  MetTally tallies[kTalliesASide][kTalliesASide];  // By kind and type.
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
  // Where the contribution of that many bytes lies, of a rank that has announced the operation.
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

// The last events of one thread, which never waits to write. Any thread may copy them at the same
// time, and never gets a torn event.
//
//   begun = events whose write has begun, written = complete events; begun - written is 0 or 1
//
//   Write: begun = n + 1, fence, the eight words of slot n % size, written = n + 1
//   Copy:  read written, copy the words, fence, read begun; drop the oldest events, which events
//          begun since then have overwritten
//
// README.md, EventRing, has the proof.
//
// Owner: FlightRecorder. Thread: one writer; Copy from any. Memory: fixed; pages are used once they
// are written.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "daemon/platform/mapping.h"
#include "proto/types/operation_key.h"

namespace mlxcomm::record {

inline constexpr std::uint32_t kNobody = kEveryRank;

enum class EventKind : std::uint8_t {
  kNothing = 0,
  // The stages of an operation on this node, in this order. kSubmitted occurs once for each rank
  // here, and kHeard once for each other node, perhaps before kSubmitted.
  kSubmitted,  // party: the rank; bytes: passed by it; step: the root.
  kHeard,      // The first frame from another node. party: the first rank there.
  kMatched,    // All ranks of this node have called it; it begins.
  kFirstByte,  // Went to or came from another node.
  kLastByte,   // bytes: received; duration_ns: the bytes sent.
  kDone,       // All ranks here have their completions.
  kFailed,     // Same, with a failure; code: its code.
  // Work of a rail or worker, which begins at time_ns and takes duration_ns.
  kSent,
  kReceived,
  kWorked,
};

// An event of the flight recorder, one cache line. The writers define the numbers of kinds, types
// and operators.
struct Event {
  std::uint64_t time_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t group = 0;  // The operation's key, as separate fields to avoid padding.
  std::uint64_t number = 0;
  std::uint32_t source_rank = kNobody;
  std::uint32_t destination_rank = kNobody;
  std::uint32_t tag = 0;
  std::uint32_t party = kNobody;
  EventKind kind = EventKind::kNothing;
  std::uint8_t operation = 0;  // An OperationKind.
  std::uint8_t data_type = 0;
  std::uint8_t reduce_operator = 0;
  std::uint16_t step = 0;  // kSent, kReceived: the plan's step.
  std::uint8_t code = 0;   // kFailed: the failure's code.
  std::uint8_t plan = 0;   // kMatched: the plan between nodes.

  OperationKey name() const { return {group, number, source_rank, destination_rank, tag}; }
  void set_name(const OperationKey& name) {
    group = name.group;
    number = name.number;
    source_rank = name.source_rank;
    destination_rank = name.destination_rank;
    tag = name.tag;
  }
};
static_assert(sizeof(Event) == 64 && std::is_trivially_copyable_v<Event>);

class EventRing {
 public:
  // `size` is a power of two.
  explicit EventRing(std::size_t size)
      : mask_(size - 1),
        memory_(platform::MapSparse(size * sizeof(Slot))),
        slots_(reinterpret_cast<Slot*>(memory_.data())) {}

  void Write(const Event& event) {
    const std::uint64_t number = begun_.load(std::memory_order_relaxed);
    const auto words = std::bit_cast<Words>(event);
    Slot& slot = slots_[number & mask_];
    if (number <= mask_) std::construct_at(&slot);
    begun_.store(number + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i) {
      slot.words[i].store(words[i], std::memory_order_relaxed);
    }
    written_.store(number + 1, std::memory_order_release);
  }

  // Appends the newest events to `events`, at most `most`, oldest first, and none before number
  // `first`.
  void Copy(std::size_t most, std::uint64_t first, std::vector<Event>& events) const {
    const std::uint64_t written = written_.load(std::memory_order_acquire);
    const std::uint64_t size = mask_ + 1;
    const std::uint64_t wanted = most < size ? most : size;
    std::uint64_t from = written > wanted ? written - wanted : 0;
    if (from < first) from = first;
    const std::size_t kept = events.size();
    for (std::uint64_t number = from; number < written; ++number) {
      Words words;
      const Slot& slot = slots_[number & mask_];
      for (std::size_t i = 0; i < words.size(); ++i) {
        words[i] = slot.words[i].load(std::memory_order_relaxed);
      }
      events.push_back(std::bit_cast<Event>(words));
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
    const std::uint64_t whole = begun > size ? begun - size : 0;  // The oldest whole one.
    if (whole <= from) return;
    const std::uint64_t torn = (whole < written ? whole : written) - from;
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(kept),
                 events.begin() + static_cast<std::ptrdiff_t>(kept + torn));
  }

  std::uint64_t written() const { return written_.load(std::memory_order_acquire); }
  std::size_t size() const { return mask_ + 1; }

 private:
  using Words = std::array<std::uint64_t, sizeof(Event) / sizeof(std::uint64_t)>;
  struct alignas(64) Slot {
    std::array<std::atomic<std::uint64_t>, sizeof(Event) / sizeof(std::uint64_t)> words{};
  };

  const std::size_t mask_;
  const platform::Mapping memory_;
  Slot* const slots_;
  alignas(64) std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace mlxcomm::record

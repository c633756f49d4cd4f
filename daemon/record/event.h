// One thing that happened, as the flight recorder keeps it: a cache line.
//
// The writers define the numbers of kinds, types and operators; this folder only carries them. The Name tells
// which operation an event belongs to, and is the same on every node.
//
// Memory: 64 bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

namespace mlxcomm::record {

inline constexpr std::uint32_t kNobody = 0xffffffff;

enum class EventKind : std::uint8_t {
  kNothing = 0,
  // An operation's life on this node, in this order. kSubmitted and kHeard come once for
  // each rank here and each node elsewhere, and kHeard may come before kSubmitted.
  kSubmitted,  // party: the rank; bytes: passed by it; step: the root.
  kHeard,      // The first frame of another node. party: the first rank there.
  kMatched,    // All ranks of this node have called it; it begins.
  kFirstByte,  // To or from another node.
  kLastByte,   // bytes: received; duration_ns: the bytes sent.
  kDone,       // All of its ranks here have their answers.
  kFailed,     // As kDone, with a failure; code: why.
  // Work of a rail or a worker for it: begins at time_ns, lasts duration_ns.
  kSent,
  kReceived,
  kWorked,
};

struct Name {
  std::uint64_t group = 0;
  std::uint64_t number = 0;
  std::uint32_t source_rank = kNobody;  // kNobody: a collective.
  std::uint32_t destination_rank = kNobody;
  std::uint32_t tag = 0;

  bool point_to_point() const { return source_rank != kNobody; }
  friend auto operator<=>(const Name&, const Name&) = default;
};

struct Event {
  std::uint64_t time_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t group = 0;  // The Name, spread out to avoid padding.
  std::uint64_t number = 0;
  std::uint32_t source_rank = kNobody;
  std::uint32_t destination_rank = kNobody;
  std::uint32_t tag = 0;
  std::uint32_t party = kNobody;
  EventKind kind = EventKind::kNothing;
  std::uint8_t operation = 0;  // all_reduce, ...
  std::uint8_t data_type = 0;
  std::uint8_t reduce_operator = 0;
  std::uint16_t step = 0;  // Of the plan: kSent, kReceived.
  std::uint8_t code = 0;   // Of a failure.
  std::uint8_t plan = 0;   // kMatched: the plan between nodes.

  Name name() const { return {group, number, source_rank, destination_rank, tag}; }
  void set_name(const Name& name) {
    group = name.group;
    number = name.number;
    source_rank = name.source_rank;
    destination_rank = name.destination_rank;
    tag = name.tag;
  }
};
static_assert(sizeof(Event) == 64 && std::is_trivially_copyable_v<Event>);

}  // namespace mlxcomm::record

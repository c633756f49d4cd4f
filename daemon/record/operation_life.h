// Events put together to the lives of operations, for whoever reads the record.
//
//   called ─last rank here─▶ matched ─▶ first byte ─▶ last byte ─▶ done or failed
//      ▲ heard: the first word of each other node, any time before the last byte
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/record/flight_recorder.h"

namespace mlxcomm::record {

struct OperationLife {
  struct Party {
    std::uint32_t rank = 0;
    std::uint64_t time_ns = 0;
  };
  struct Carrier {  // A rail that moved some of it.
    std::size_t track = 0;
    std::uint64_t frames = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_bytes = 0;
    std::uint64_t last_ns = 0;
    bool at_least = false;  // Older frames of it may be overwritten.
  };
  // Who came last: a rank of this node, or the node of that rank.
  struct Last {
    bool elsewhere = false;
    std::uint32_t rank = kNobody;
  };

  Name name;
  std::uint8_t operation = 0;
  std::uint8_t data_type = 0;
  std::uint8_t reduce_operator = 0;
  std::uint8_t plan = 0;
  std::uint8_t code = 0;
  std::uint32_t root = 0;
  std::uint64_t bytes = 0;       // That the first rank here passed.
  std::vector<Party> submitted;  // In the order in which they called.
  std::vector<Party> heard;
  std::uint64_t matched_ns = 0;  // 0, here and below: it has not got there.
  std::uint64_t first_byte_ns = 0;
  std::uint64_t last_byte_ns = 0;
  std::uint64_t ended_ns = 0;
  bool failed = false;
  std::uint64_t sent_bytes = 0;  // To other nodes, once the last byte is there.
  std::uint64_t received_bytes = 0;
  std::vector<Carrier> carriers;

  std::uint64_t began_ns() const;  // The first thing known of it.
  // Of those who called or were heard, once it is done. Before, or where it has failed,
  // nobody: somebody may still be missing, for small data goes out without waiting.
  Last last() const;
};

// Of one loop's events, oldest first; so are the lives, by their first event. Those
// that had begun before the oldest event and have ended are left out.
std::vector<OperationLife> LivesOf(std::span<const Event> events);

// Which rail carried how much of each. Carrier::track is an index into `rails`.
void AddCarriers(std::span<const TrackCopy> rails, std::vector<OperationLife>& lives);

}  // namespace mlxcomm::record

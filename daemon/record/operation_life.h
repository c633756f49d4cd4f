// Assembles recorded events into one OperationLife for each operation.
//
//   called ─last rank here─▶ matched ─▶ first byte ─▶ last byte ─▶ done or failed
//      ▲ heard: the first frame from each other node, any time before the last byte
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
    bool at_least = false;  // Older frames of the operation may be overwritten.
  };
  struct Last {
    bool elsewhere = false;  // Another node, of which `rank` is a rank.
    std::uint32_t rank = kNobody;
  };

  OperationKey name;
  std::uint8_t operation = 0;
  std::uint8_t data_type = 0;
  std::uint8_t reduce_operator = 0;
  std::uint8_t plan = 0;
  std::uint8_t code = 0;
  std::uint32_t root = 0;
  std::uint64_t bytes = 0;       // Passed by the first rank here.
  std::vector<Party> submitted;  // Kept in call order.
  std::vector<Party> heard;
  std::uint64_t matched_ns = 0;  // 0, here and below: not reached.
  std::uint64_t first_byte_ns = 0;
  std::uint64_t last_byte_ns = 0;
  std::uint64_t ended_ns = 0;
  bool failed = false;
  std::uint64_t sent_bytes = 0;  // Went to other nodes; set with the last byte.
  std::uint64_t received_bytes = 0;
  std::vector<Carrier> carriers;

  std::uint64_t began_ns() const;  // The time of its first event.
  // The last rank or node to call or be heard, once the operation is done. kNobody before that or
  // after a failure: ranks may be missing then, because small data is sent without waiting.
  Last last() const;
};

// Assembles the events of one loop, oldest first, in the order of each operation's first event.
// Leaves out completed operations whose calls are no longer recorded.
std::vector<OperationLife> LivesOf(std::span<const Event> events);

// Adds what each rail carried of each operation. Carrier::track is an index into `rails`.
void AddCarriers(std::span<const TrackCopy> rails, std::vector<OperationLife>& lives);

}  // namespace mlxcomm::record

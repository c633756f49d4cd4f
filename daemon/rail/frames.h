// What a rail is given, and what it reports: frames to send, receives to fill, bytes that the system holds.
//
// Plain values. Thread: `place` of a posted receive says which.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/types/operation_key.h"
#include "proto/wire/frame.h"

namespace mlxcomm::rail {

inline OperationKey KeyOf(const wire::FrameHeader& header) {
  return {header.group, header.number, header.source_rank, header.destination_rank, header.tag};
}

struct OutgoingFrame {
  wire::FrameHeader header;  // All but `acknowledged`.
  const std::byte* payload = nullptr;
};

// Bytes that the sending system had taken from a rail and the other side's had not, and when:
// an estimate, for the choice between rails.
struct HeldBytes {
  std::uint64_t bytes = 0;
  std::uint64_t at_ns = 0;
};

// A receive for kData frames of one step of one operation from one node.
// Chunks may arrive in any order and each is placed exactly once.
struct PostedReceive {
  OperationKey key;
  std::uint16_t step = 0;
  std::uint64_t bytes = 0;           // The step's range; > 0.
  std::byte* destination = nullptr;  // Valid until OnWithdrawn or the last OnDataReceived.
  // nullptr: the payload is read straight to the destination. Otherwise the
  // payload is staged by the rail and given to `place` on the rail's thread; on the
  // loop's where the node is reached through others, the receive is not large, or cores
  // are scarce.
  void (*place)(const PostedReceive& receive, std::uint64_t offset, const std::byte* staged,
                std::uint32_t bytes) = nullptr;
  const std::byte* operand = nullptr;  // For `place`.
  std::uint32_t place_arguments = 0;   // For `place`: data type and operator, packed by the owner.
};

}  // namespace mlxcomm::rail

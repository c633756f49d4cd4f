// A rail's frames to send, receives to fill, and the bytes that the system holds. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/types/operation_key.h"
#include "proto/wire/frame.h"

namespace mlxcomm::rail {

struct OutgoingFrame {
  wire::FrameHeader header;  // All but `acknowledged`.
  const std::byte* payload = nullptr;
};

// An estimate of the bytes under way in the two systems' sockets, for the choice between rails.
struct HeldBytes {
  std::uint64_t bytes = 0;
  std::uint64_t at_ns = 0;
};

// A receive for kData frames of one operation's step from one node. Each chunk is placed once, in
// any order.
struct PostedReceive {
  OperationKey key;
  std::uint16_t step = 0;
  std::uint64_t bytes = 0;           // The step's range; > 0.
  std::byte* destination = nullptr;  // Valid until OnWithdrawn or the last OnDataReceived.
  // nullptr: payload goes directly to the destination. Otherwise `place` gets it on the rail's
  // thread; on the loop's for circuits, small receives, and if cores are scarce.
  void (*place)(const PostedReceive& receive, std::uint64_t offset, const std::byte* staged,
                std::uint32_t bytes) = nullptr;
  const std::byte* operand = nullptr;  // Used by `place`.
  std::uint32_t place_arguments = 0;   // Used by `place`: data type and operator, packed.
};

}  // namespace mlxcomm::rail

#include "proto/wire/frame.h"

#include "proto/wire/route.h"

namespace mlxcomm::wire {
namespace {

bool IsBetween(std::uint32_t bytes, std::size_t least, std::size_t most) {
  return bytes >= least && bytes <= most;
}

bool IsWellFormedRouting(const FrameHeader& header) {
  if (header.sequence == 0) return false;
  const std::uint32_t bytes = header.payload_bytes;
  switch (header.type) {
    case FrameType::kTopology:
      return IsBetween(bytes, sizeof(Advertisement),
                       sizeof(Advertisement) + kNeighboursMax * sizeof(NodeIdBytes));
    case FrameType::kCircuitOpen:
      return IsBetween(bytes, sizeof(CircuitOpening),
                       sizeof(CircuitOpening) + kRouteNodesMax * sizeof(NodeIdBytes));
    case FrameType::kCircuitOpened: return bytes == sizeof(Introduction);
    case FrameType::kCircuitFrame: return IsBetween(bytes, sizeof(FrameHeader), kSlotBytesMax);
    case FrameType::kCircuitCredit: return bytes == 0;
    case FrameType::kCircuitClosed: return bytes <= kCircuitTextBytesMax && header.step <= 1;
    default: return false;
  }
}

}  // namespace

bool IsWellFormed(const FrameHeader& header) {
  if (header.magic != kFrameMagic) return false;
  if (header.sequence > kSequenceMax) return false;
  if (header.header_sum != 0 || header.payload_sum != 0) return false;
  const bool may_have_flag = (header.type == FrameType::kEager && header.flags == kSolicited) ||
                             (header.type == FrameType::kData && header.flags == kRepeated) ||
                             (header.type == FrameType::kHeartbeat && header.flags == kProveAgain);
  if (header.flags != 0 && !may_have_flag) return false;
  switch (header.type) {
    case FrameType::kHeartbeat:
    case FrameType::kEcho:
      return header.sequence == 0 &&
             (header.payload_bytes == 0 || header.payload_bytes == kPaddedBytes);
    case FrameType::kGivenUp: return header.sequence == 0 && header.payload_bytes == 0;
    case FrameType::kAck:
      return header.sequence == 0 && header.payload_bytes == 0 && header.tag < Arrived::kBlocks &&
             header.step <= kWindow;
    case FrameType::kControl:
      return header.sequence != 0 && header.payload_bytes <= kControlBytesMax;
    case FrameType::kEager: return header.sequence != 0 && header.payload_bytes <= kEagerBytesMax;
    case FrameType::kData:
      return header.sequence != 0 && header.payload_bytes > 0 &&
             header.payload_bytes <= kChunkBytesMax;
    case FrameType::kGrant:
    case FrameType::kCredit:
    case FrameType::kCancelled: return header.sequence != 0 && header.payload_bytes == 0;
    case FrameType::kTopology:
    case FrameType::kCircuitOpen:
    case FrameType::kCircuitOpened:
    case FrameType::kCircuitFrame:
    case FrameType::kCircuitCredit:
    case FrameType::kCircuitClosed: return IsWellFormedRouting(header);
    case FrameType::kRailSetup:
      return header.sequence != 0 && header.payload_bytes == kRailSetupBytes;
  }
  return false;
}

}  // namespace mlxcomm::wire

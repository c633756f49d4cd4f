#include "proto/wire/frame.h"

namespace mlxcomm::wire {

bool IsWellFormed(const FrameHeader& header) {
  if (header.magic != kFrameMagic) return false;
  if (header.reserved2 != 0 || header.reserved3 != 0) return false;
  if (header.flags != 0 && (header.type != FrameType::kEager || header.flags != kSolicited)) {
    return false;
  }
  switch (header.type) {
    case FrameType::kHeartbeat:
    case FrameType::kEcho:
    case FrameType::kAck:
      return header.sequence == 0 && header.payload_bytes == 0;
    case FrameType::kControl:
      return header.sequence != 0 && header.payload_bytes <= kControlBytesMax;
    case FrameType::kEager:
      return header.sequence != 0 && header.payload_bytes <= kEagerBytesMax;
    case FrameType::kData:
      return header.sequence != 0 && header.payload_bytes > 0 &&
             header.payload_bytes <= kChunkBytesMax;
    case FrameType::kGrant:
    case FrameType::kCredit:
    case FrameType::kCancelled:
      return header.sequence != 0 && header.payload_bytes == 0;
  }
  return false;
}

}  // namespace mlxcomm::wire

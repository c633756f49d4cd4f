// The frames on a rail: an 80-byte header, then payload_bytes of payload. Little-endian.
//
// A rail is authenticated before the first frame (hello.h), but every field is checked: an invalid
// frame takes the rail down. On unencrypted rails, checksums of header and payload reveal
// corruption. The header's is checked before any field is used.
//
// Numbered frames (sequence > 0) belong to the channel: each is delivered once, over any rail, and
// all but kData in order. The sender keeps them until they are acknowledged, and resends them when
// their rail fails. At most kWindow of them are unacknowledged. Unnumbered frames (sequence 0)
// concern one rail, or acknowledge.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "proto/types/operation_key.h"

namespace mlxcomm::wire {

static_assert(std::endian::native == std::endian::little, "headers are sent in memory order");

inline constexpr std::uint32_t kFrameMagic = 0x46434c4d;  // "MLCF"
inline constexpr std::uint32_t kEagerBytesMax = 16 * 1024;
inline constexpr std::uint32_t kChunkBytesMax = 1024 * 1024;
inline constexpr std::uint32_t kControlBytesMax = 256 * 1024;
// More than any MTU: a frame of this size fills at least one packet.
inline constexpr std::uint32_t kPaddedBytes = 64 * 1024;

// The most frames that may be sent and not acknowledged.
inline constexpr std::uint64_t kWindow = 1024;
inline constexpr std::uint64_t kSequenceMax = (std::uint64_t{1} << 60) - 1;
// The most unacknowledged bytes of copied payload (all but kData's): the receiver buffers them
// until the frames before them have arrived.
inline constexpr std::uint64_t kEarlyBytesMax = 16 * 1024 * 1024;

inline constexpr std::uint8_t kSolicited = 1;   // Flag of kEager: it used no credit.
inline constexpr std::uint8_t kProveAgain = 1;  // Flag of kHeartbeat.
// Flag of kData: a resend on request, sent from a copy and received into one.
inline constexpr std::uint8_t kRepeated = 1;

// type        numbered  payload           what it is
// kHeartbeat  no        0, or kPaddedBytes  offset = sender's clock, ns; kProveAgain: the sender no
//                                         longer accepts the key that authenticated this rail
// kEcho       no        as heartbeat's    offset = the heartbeat's clock, returned. The payload is
//                                         ignored; it shows that large frames pass.
//                                         In both: number = frames sent before it on this
//                                         connection; digest = the sender's random number for the
//                                         connection (0: none). So the receiver detects lost frames
// kAck        no        0                 carries `acknowledged` if no other frame does, and the
//                                         frames beyond it that have arrived (Arrived)
// kGivenUp    no        0                 the sender has dropped this rail and no longer reads it;
//                                         tag = LinkReason (types/link_reason.h)
// kControl    yes       PeerMessage       daemon to daemon
// kEager      yes       <= kEagerBytesMax data sent for a credit instead of a grant, or
//                                         granted for lack of credit (kSolicited);
//                                         offset = the step's check
// kData       yes       <= kChunkBytesMax data for a granted receive
// kGrant      yes       0                 the operation may be sent: its receives are posted
// kCredit     yes       0                 offset = eager frames of `group` that were consumed
// kCancelled  yes       0                 replaces a data frame whose operation failed
//
// Between neighbours only, for nodes that are not neighbours (route.h); `group` names the circuit:
// kTopology       yes   Advertisement     flooded: the neighbours of a node
// kCircuitOpen    yes   CircuitOpening    makes a circuit along the route that it names
// kCircuitOpened  yes   Introduction      the destination has accepted it
// kCircuitFrame   yes   header, a chunk   a frame from end to end; offset = the chunk's offset in
//                                         the frame's payload
// kCircuitCredit  yes   0                 `number` frames with `offset` bytes were consumed
// kCircuitClosed  yes   text              the circuit has ended; step = CircuitEnd, tag =
//                                         LinkReason (types/link_reason.h)
//
// Between neighbours only:
// kRailSetup      yes   kRailSetupBytes   makes a side rail next to the rail it arrives on: a
//                                         message of the transports' own
//                                         (daemon/fabric/side_rails.h)
enum class FrameType : std::uint8_t {
  kHeartbeat = 1,
  kEcho = 2,
  kAck = 3,
  kControl = 4,
  kEager = 5,
  kData = 6,
  kGrant = 7,
  kCredit = 8,
  kCancelled = 9,
  kTopology = 10,
  kCircuitOpen = 11,
  kCircuitOpened = 12,
  kCircuitFrame = 13,
  kCircuitCredit = 14,
  kCircuitClosed = 15,
  kRailSetup = 16,
  kGivenUp = 17,
};

inline constexpr std::uint32_t kRailSetupBytes = 312;

inline constexpr bool IsSignOfLife(FrameType type) {
  return type == FrameType::kHeartbeat || type == FrameType::kEcho;
}
// True for frames that neighbours send each other on behalf of other nodes.
inline constexpr bool IsRouting(FrameType type) {
  return type >= FrameType::kTopology && type <= FrameType::kCircuitClosed;
}

enum class CircuitEnd : std::uint16_t {
  kCut = 0,    // The route broke, or an end dropped it: the other end may still be alive.
  kReset = 1,  // The other end is lost.
};

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  FrameType type = FrameType::kHeartbeat;
  std::uint8_t flags = 0;  // kSolicited, kProveAgain, kRepeated.
  std::uint16_t step = 0;  // The plan's tag of the step; equal on both sides.
  std::uint32_t payload_bytes = 0;
  std::uint32_t header_sum = 0;  // CRC32C of the header, with 0 here; 0 on rails without sums.
  std::uint64_t sequence = 0;
  std::uint64_t acknowledged = 0;  // All sequences up to this one have been received.
  std::uint64_t group = 0;
  std::uint64_t number = 0;                // The operation's number in its group or pair.
  std::uint32_t source_rank = kEveryRank;  // Same as in OperationKey.
  std::uint32_t destination_rank = kEveryRank;
  std::uint32_t tag = 0;
  std::uint32_t payload_sum = 0;  // CRC32C of the payload; 0 on rails without sums.
  std::uint64_t offset = 0;       // Bytes from the start of the step's range.
  std::uint64_t digest = 0;       // Digest of the operation's signature; 0: none.
};
static_assert(sizeof(FrameHeader) == 80);
static_assert(std::is_trivially_copyable_v<FrameHeader>);

inline OperationKey KeyOf(const FrameHeader& header) {
  return {header.group, header.number, header.source_rank, header.destination_rank, header.tag};
}
inline FrameHeader HeaderFor(const OperationKey& key) {
  return {.group = key.group,
          .number = key.number,
          .source_rank = key.source_rank,
          .destination_rank = key.destination_rank,
          .tag = key.tag};
}

// The largest payload that rails and channels keep in slots: a chunk on a circuit.
inline constexpr std::uint32_t kSlotBytesMax = kEagerBytesMax + sizeof(FrameHeader);

// The part of a kAck besides `acknowledged`: a bitmap of the kBits sequences from acknowledged + 1
// + kBits * block that have arrived; several kAcks cover the whole window. It uses header fields
// that kAck does not need, so that no payload has to be kept. A list of ranges would not always
// fit.
struct Arrived {
  static constexpr std::uint64_t kBits = 256;
  static constexpr std::uint32_t kBlocks = kWindow / kBits;
  std::uint32_t block = 0;
  // Requests a resend of acknowledged + wanted, because a copy of it was dropped; 0: none.
  std::uint16_t wanted = 0;
  std::array<std::uint64_t, kBits / 64> bits = {};
};
inline void PutArrived(const Arrived& arrived, FrameHeader& header) {
  header.tag = arrived.block;
  header.step = arrived.wanted;
  header.group = arrived.bits[0];
  header.number = arrived.bits[1];
  header.offset = arrived.bits[2];
  header.digest = arrived.bits[3];
}
inline Arrived ArrivedOf(const FrameHeader& header) {
  return {header.tag, header.step, {header.group, header.number, header.offset, header.digest}};
}

// A newer acknowledgement replaces a queued one of the same block, and a newer heartbeat a queued
// one. A request for a resend in the older one is kept; an acknowledgement has space for one.
inline bool MayRenew(const FrameHeader& waiting, const FrameHeader& newer) {
  const bool ask_both = waiting.type == FrameType::kAck && waiting.step != 0 && newer.step != 0;
  return waiting.type == newer.type && waiting.tag == newer.tag && !ask_both &&
         waiting.payload_bytes == newer.payload_bytes;
}
inline void Renew(FrameHeader& waiting, const FrameHeader& newer) {
  const std::uint64_t wanted = waiting.acknowledged + waiting.step;
  const bool asks = waiting.step != 0 && newer.step == 0 && wanted > newer.acknowledged;
  waiting = newer;
  if (asks) waiting.step = static_cast<std::uint16_t>(wanted - newer.acknowledged);
}

// True if every field is valid for the type, and both sums are 0: a rail checks and clears them
// first. Does not check that the frame was expected.
bool IsWellFormed(const FrameHeader& header);

}  // namespace mlxcomm::wire

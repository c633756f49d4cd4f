// What travels on a rail: an 80-byte header, then payload_bytes of payload.
//
// Little-endian, packed by hand-ordered fields, asserted. A rail is authenticated before the first frame
// (hello.h), yet every field is checked: a frame that breaks a bound takes the rail down.
//
// On rails that are not encrypted header and payload have a sum each, so that bytes which a device on the
// way has changed are noticed. The header's is checked before any field of it is believed.
//
// Numbered frames (sequence > 0) belong to the channel: delivered once, whichever rail they arrive on, all
// but kData in order; the sender keeps them until they are acknowledged and sends them again when their
// rail goes. At most kWindow of them lie beyond what was acknowledged. Unnumbered ones (sequence 0)
// concern the rail alone, or acknowledge.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace mlxcomm::wire {

static_assert(std::endian::native == std::endian::little,
              "headers are written as they lie in memory");

inline constexpr std::uint32_t kFrameMagic = 0x46434c4d;  // "MLCF"
inline constexpr std::uint32_t kEagerBytesMax = 16 * 1024;
inline constexpr std::uint32_t kChunkBytesMax = 1024 * 1024;
inline constexpr std::uint32_t kControlBytesMax = 256 * 1024;
// More than any MTU: a frame of this size fills at least one packet.
inline constexpr std::uint32_t kPaddedBytes = 64 * 1024;
inline constexpr std::uint32_t kNoRankOnWire = 0xffffffff;

// How far numbers may run ahead of what the other side has acknowledged.
inline constexpr std::uint64_t kWindow = 1024;
inline constexpr std::uint64_t kSequenceMax = (std::uint64_t{1} << 60) - 1;
// Copied payload (all but kData's) that may be under way beyond what was acknowledged: the other
// side keeps it until the frames before it have come.
inline constexpr std::uint64_t kEarlyBytesMax = 16 * 1024 * 1024;

inline constexpr std::uint8_t kSolicited = 1;   // Flag of kEager: it took no credit.
inline constexpr std::uint8_t kProveAgain = 1;  // Flag of kHeartbeat.
// Flag of kData: the other side asked for it again, so it comes from a copy and is read to one.
inline constexpr std::uint8_t kRepeated = 1;

// type        numbered  payload           what it is
// kHeartbeat  no        0, or kPaddedBytes  offset = sender's clock, ns; kProveAgain: the sender no
//                                         longer accepts the key that this rail was proved with
// kEcho       no        as heartbeat's    offset = the heartbeat's clock, returned; nobody reads the
//                                         payload, which only shows that so much passes
//                                         Of both: number = frames that went before it on this
//                                         connection; digest = the sender's random number for it.
//                                         So what was swallowed is noticed (0: not said)
// kAck        no        0                 carries `acknowledged` when nothing else does, and
//                                         which of those beyond it have arrived (Arrived)
// kGivenUp    no        0                 the sender has given this rail up and reads it no more;
//                                         tag = LinkReason (types/link_reason.h)
// kControl    yes       PeerMessage       daemon to daemon
// kEager      yes       <= kEagerBytesMax data that needed no grant but one credit, or
//                                         was granted for want of credit (kSolicited);
//                                         offset = the step's check
// kData       yes       <= kChunkBytesMax data for a receive that was granted
// kGrant      yes       0                 the operation may be sent: its receives are posted
// kCredit     yes       0                 offset = eager frames of `group` that were consumed
// kCancelled  yes       0                 stands in for a data frame whose operation failed
//
// Between neighbours only, for nodes that are not neighbours (route.h); `group` names the circuit:
// kTopology       yes   Advertisement     flooded: which nodes are neighbours
// kCircuitOpen    yes   CircuitOpening    makes a circuit along the route that it names
// kCircuitOpened  yes   Introduction      the destination has accepted it
// kCircuitFrame   yes   header, a piece   a frame from end to end; offset = where in the
//                                         frame's payload the piece begins
// kCircuitCredit  yes   0                 number frames of offset bytes were taken
// kCircuitClosed  yes   text              the circuit has ended; step = CircuitEnd, tag =
//                                         LinkReason (types/link_reason.h)
//
// Between neighbours only, for themselves:
// kRailSetup      yes   RailSetup         makes a side rail beside the one it arrives on
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

inline constexpr bool IsSignOfLife(FrameType type) {
  return type == FrameType::kHeartbeat || type == FrameType::kEcho;
}
// What neighbours send each other for third nodes.
inline constexpr bool IsRouting(FrameType type) {
  return type >= FrameType::kTopology && type <= FrameType::kCircuitClosed;
}

// Why a circuit has ended.
enum class CircuitEnd : std::uint16_t {
  kCut = 0,    // The route broke, or an end gave it up: the other end may still be there.
  kReset = 1,  // The other end itself has gone.
};

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  FrameType type = FrameType::kHeartbeat;
  std::uint8_t flags = 0;  // kSolicited, kProveAgain, kRepeated.
  std::uint16_t step = 0;  // The plan's tag of the step; equal on both sides.
  std::uint32_t payload_bytes = 0;
  std::uint32_t header_sum = 0;  // CRC32C of the header, with 0 here; 0 where frames have no sums.
  std::uint64_t sequence = 0;
  std::uint64_t acknowledged = 0;  // All sequences up to here have been received.
  std::uint64_t group = 0;
  std::uint64_t number = 0;                        // The operation's number in its group or pair.
  std::uint32_t source_rank = kNoRankOnWire;       // Point-to-point only.
  std::uint32_t destination_rank = kNoRankOnWire;  // Point-to-point only.
  std::uint32_t tag = 0;
  std::uint32_t payload_sum = 0;  // CRC32C of the payload; 0 where frames have no sums.
  std::uint64_t offset = 0;       // Bytes from the start of the step's range.
  std::uint64_t digest = 0;       // Of the operation's signature; 0 where none.
};
static_assert(sizeof(FrameHeader) == 80);
static_assert(std::is_trivially_copyable_v<FrameHeader>);

// The largest payload that rails and channels keep in slots: a piece on a circuit.
inline constexpr std::uint32_t kSlotBytesMax = kEagerBytesMax + sizeof(FrameHeader);

// What a kAck says besides `acknowledged`: which of the kBits numbers from acknowledged + 1 + kBits
// * block on have come; several of them cover the whole window. It lies in header fields that kAck
// has no other use for, so that no payload has to live until it is written. It is a bitmap because
// a list of ranges would not always fit.
struct Arrived {
  static constexpr std::uint64_t kBits = 256;
  static constexpr std::uint32_t kBlocks = kWindow / kBits;
  std::uint32_t block = 0;
  // The peer asks for acknowledged + wanted again, because a copy of it was dropped; 0: for none.
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

// A newer acknowledgement replaces one of the same block that still waits, and a newer heartbeat an
// older one: it says all that the older one said. What the older one asks for is still asked for; there is
// place for one such number.
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

// True when every field is within its bound for its type, and there are no sums, which a rail takes off
// first; says nothing about whether anybody asked
// for the frame.
bool IsWellFormed(const FrameHeader& header);

}  // namespace mlxcomm::wire

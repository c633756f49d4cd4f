// How two neighbours make an RDMA rail of two queue pairs: messages on their channel, payloads of
// kRailSetup (frame.h), carried by a rail of another kind that exists already.
//
//   offerer (the smaller node id)               answerer
//   makes a queue pair
//   kOffer(its address, what it has) ────────▶  makes one that suits, connects it
//               ◀────────────────────────────  kAnswer(its address, what both use)
//   connects it; from here on it may send
//   kReady ──────────────────────────────────▶  from here on it may send
//
// Either may send kRefuse instead, with the reason; the other forgets the attempt. A queue pair has
// its receives posted before the other side learns that it may send.
//
// Little-endian, asserted; the receiver checks every field.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "proto/wire/hello.h"

namespace mlxcomm::wire {

// RDMA's kinds. Every transport with rails beside connections (daemon/fabric/side_rails.h) sees all
// payloads of kRailSetup, and only `kind` says which of them one is for; each ignores those that are not
// its own. The messages of another transport have the size of RailSetup, because frames of another size are
// refused, and kinds that its own folder defines and this enumeration does not name: 0x10000 times its
// number in Transport (proto/types/link_reason.h), and more.
enum class SetupKind : std::uint32_t { kOffer = 1, kAnswer = 2, kReady = 3, kRefuse = 4 };

inline constexpr bool IsOfRdma(SetupKind kind) {
  return kind >= SetupKind::kOffer && kind <= SetupKind::kRefuse;
}

// In `services`. Every device has unreliable pairs; in kRefuse: only those may be offered.
inline constexpr std::uint32_t kReliableService = 1;
inline constexpr std::uint32_t kUnreliableOnly = 2;
// In kRefuse: the offered messages are too large; `message_bytes` says what would do.
inline constexpr std::uint32_t kSmallerMessages = 4;
inline constexpr std::size_t kSetupWhyBytes = 160;

struct RailSetup {
  SetupKind kind;
  std::uint32_t services;  // kOffer: also these are available. kAnswer: the one that is used.
  std::uint64_t attempt;   // The offerer's, random, never 0; the connection's name.
  char sender_interface[kInterfaceBytesMax];  // The path as the sender sees it; NUL-padded.
  char receiver_interface[kInterfaceBytesMax];
  std::uint32_t message_bytes;  // The size of all messages, at most. kAnswer: the size used.
  // In flight at once, in each direction. kAnswer: as used. kRefuse: the LinkReason
  // (types/link_reason.h) for `why`, from the refusing side's view.
  std::uint32_t messages;
  std::array<std::uint8_t, 16> gid;
  std::uint32_t queue_pair;
  std::uint32_t first_packet;  // 24 bits.
  std::uint32_t receives;      // The receives that it has posted before the other side may send.
  std::uint16_t lid;
  std::uint16_t mtu_bytes;
  char why[kSetupWhyBytes];  // kRefuse: for people; NUL-padded.
};
static_assert(sizeof(RailSetup) == 312 && std::is_trivially_copyable_v<RailSetup>);

}  // namespace mlxcomm::wire

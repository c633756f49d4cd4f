// The messages by which two neighbours make an RDMA rail of two queue pairs: payloads of kRailSetup
// (wire/frame.h) on an existing rail.
//
//   offerer (the smaller node id)               answerer
//   makes a queue pair
//   kOffer(its address, its limits) ─────────▶  makes a matching queue pair, connects it
//               ◀────────────────────────────  kAnswer(its address, the values for both)
//   connects it, and may send from now on
//   kReady ──────────────────────────────────▶  may send from now on
//
// Either side may send kRefuse instead, with the reason, to end the attempt. Each side posts its
// receives before the other side may send.
//
// Little-endian; the receiver checks every field.
#pragma once

#include <cstdint>
#include <type_traits>

#include "daemon/rdma/queue_pair.h"
#include "proto/wire/frame.h"
#include "proto/wire/hello.h"

namespace mlxcomm::rdma {

enum class SetupKind : std::uint32_t { kOffer = 1, kAnswer = 2, kReady = 3, kRefuse = 4 };

// Values of `services`. Every device has unreliable pairs; kUnreliableOnly in kRefuse: offer only
// these.
inline constexpr std::uint32_t kReliableService = 1;
inline constexpr std::uint32_t kUnreliableOnly = 2;
// Set in kRefuse: the offered messages are too large; `message_bytes` is the largest size possible.
inline constexpr std::uint32_t kSmallerMessages = 4;
inline constexpr std::size_t kSetupWhyBytes = 160;

struct RailSetup {
  SetupKind kind;
  std::uint32_t services;  // kOffer: additional services. kAnswer: the service in use.
  std::uint64_t attempt;   // The offerer's random number for the connection; never 0.
  char sender_interface[wire::kInterfaceBytesMax];  // The path as the sender sees it; NUL-padded.
  char receiver_interface[wire::kInterfaceBytesMax];
  std::uint32_t message_bytes;  // The largest message size. kAnswer: the size in use.
  // Messages in flight in each direction. kAnswer: the number in use. kRefuse: the LinkReason
  // (types/link_reason.h) for `why`, as the refusing side sees it.
  std::uint32_t messages;
  QueuePairAddress address;
  char why[kSetupWhyBytes];  // kRefuse: for people; NUL-padded.
};
static_assert(sizeof(RailSetup) == wire::kRailSetupBytes &&
              std::is_trivially_copyable_v<RailSetup>);

}  // namespace mlxcomm::rdma

// The datagram that a daemon sends to all others on a cable or a switch, by IPv6 link-local
// multicast (ff02::4d4c:5843).
//
//   A ── hello(nonce a) ─────────────────▶ all       A has come up
//   A ◀─ hello(nonce b, heard A: a, ?) ─── B         B has heard A, so A knows that B is alive
//   A ── hello(nonce a, heard B: b) ─────▶ B         and now B knows that A is alive
//
// A single hello proves nothing, because it may be a replay. A hello that repeats this node's nonce
// for this interface proves that its sender has heard this node recently. `?` (kHeardAsksBack) asks
// for this proof.
//
// The HMAC-SHA256 covers everything before it, with a key derived from the cluster's key and name.
// The tag, derived from the same, identifies the cluster without revealing the key. No field after
// the tag is used before the HMAC is checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/wire/hello.h"

namespace mlxcomm::wire {

inline constexpr std::uint64_t kDiscoveryMagic = 0x6d6c786863656c6c;
inline constexpr std::uint32_t kDiscoveryVersion = 1;
inline constexpr std::uint32_t kHeardNodesMax = 16;  // Limits one hello; more nodes need several.
inline constexpr std::uint32_t kHeardAsksBack = 1;
// ff02::4d4c:5843, from the range of unassigned groups (RFC 3307).
inline constexpr std::array<std::uint8_t, 16> kDiscoveryGroup = {
    0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0x4c, 0x58, 0x43};

using ClusterTag = std::array<std::uint8_t, 8>;
using AddressBytes = std::array<std::uint8_t, 16>;  // IPv6, in network order.

struct HeardNode {
  NodeIdBytes node_id;
  std::uint64_t nonce;
  std::uint32_t flags;     // kHeardAsksBack.
  std::uint32_t reserved;  // Zero.
};
static_assert(sizeof(HeardNode) == 32 && std::is_trivially_copyable_v<HeardNode>);

struct DiscoveryHello {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t heard_count;  // Never above kHeardNodesMax; the rest of `heard` is zero.
  ClusterTag tag;
  NodeIdBytes node_id;
  std::uint64_t incarnation;      // Random, new whenever a daemon starts; never 0.
  std::uint64_t sequence;         // Counts the daemon's hellos, from 1.
  std::uint64_t nonce;            // The sender's for this interface; never 0.
  AddressBytes address;           // The sending interface's link-local address.
  std::uint16_t port;             // The sender's listen port there; never 0.
  std::uint16_t reserved[3];      // Zero.
  char node_name[kNameBytesMax];  // NUL-padded, never empty.
  char interface_name[kInterfaceBytesMax];
  HeardNode heard[kHeardNodesMax];
  Mac mac;  // HMAC(hello key, all of the above).
};
static_assert(sizeof(DiscoveryHello) == 744 && std::is_trivially_copyable_v<DiscoveryHello>);
static_assert(offsetof(DiscoveryHello, mac) == 712);

}  // namespace mlxcomm::wire

// The handshake on a new connection, in which two daemons prove to each other that they hold the
// same cluster's key. Nothing else is parsed before that. See ../README.md, Proof of the key.
//
//   dialer                                   acceptor
//   Greeting(nonce_d, keys, wants TLS?) ──▶
//            ◀──────────────────────────────  Greeting(nonce_a, keys, wants TLS?)
//   Proof(node, interface, HMAC) ─────────▶   checked first: a stranger learns nothing
//            ◀──────────────────────────────  Proof(node, interface, HMAC), Verdict
//   - - - - - - - from here on inside TLS, if either side wants it - - - - - - -
//   Introduction ─────────────────────────▶
//            ◀──────────────────────────────  Introduction; then frames
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "proto/wire/versions.h"

namespace mlxcomm::wire {

inline constexpr std::uint64_t kGreetingMagic = 0x6d6c78636f6d6d70;  // "mlxcommp"
inline constexpr std::size_t kNameBytesMax = 64;
inline constexpr std::size_t kInterfaceBytesMax = 48;  // A name, or any address as text.
inline constexpr std::size_t kKeysMax = 2;

using Nonce = std::array<std::uint8_t, 32>;
using Mac = std::array<std::uint8_t, 32>;
using NodeIdBytes = std::array<std::uint8_t, 16>;
using KeyId = std::array<std::uint8_t, 8>;

// The sender's request; it accepts more.
enum class Security : std::uint32_t { kPlainWillDo = 1, kTls = 2 };

struct Greeting {
  std::uint64_t magic;
  std::uint16_t version;  // The newest that the sender speaks (versions.h).
  std::uint16_t older;    // The number of older versions that it speaks; less than `version`.
  Security security;
  char cluster[kNameBytesMax];       // NUL-padded.
  std::array<KeyId, kKeysMax> keys;  // Held by the sender, newest first; zero: none.
  Nonce nonce;
};
static_assert(sizeof(Greeting) == 128 && std::is_trivially_copyable_v<Greeting>);

// The names of both interfaces identify the rail (daemon/rail/rail_path.h) before the
// introductions.
struct Proof {
  NodeIdBytes node_id;
  char interface_name[kInterfaceBytesMax];  // The sender's end; NUL-padded, never empty.
  Mac mac;  // HMAC(derived key, role | greetings | all of the above).
};
static_assert(sizeof(Proof) == 96 && std::is_trivially_copyable_v<Proof>);

// The sender's identity, and the state of its channel to the other side. A rail joins the existing
// channel if both sides name each other's current session; otherwise both start a new channel at
// sequence 1.
struct Introduction {
  std::uint64_t incarnation;         // Random, new whenever a daemon starts.
  std::uint64_t session;             // This side's; 0: another machine with that node id is linked.
  std::uint64_t known_peer_session;  // The other side's last known session; 0: none.
  std::uint64_t next_expected;       // Acknowledges all sequences below it.
  char node_name[kNameBytesMax];     // NUL-padded.
  char software_version[28];         // NUL-padded; shown in status.
  VersionRange versions;             // The protocol versions, for the ends of a circuit (route.h).
  Mac mac;                           // HMAC(derived key, role | greetings | all of the above).
};
static_assert(sizeof(Introduction) == 160 && std::is_trivially_copyable_v<Introduction>);

enum class VerdictCode : std::uint32_t {
  kAccepted = 1,
  kAlreadyLinked = 2,  // Another connection between the two is preferred.
  kSelf = 3,           // The dialer has reached itself.
  kStopping = 4,
  kTooManyNodes = 5,        // The acceptor has reached its limit of nodes.
  kTooManyOfAddress = 6,    // The acceptor is full, and the dialer's address has reached its share.
  kTooManyConnections = 7,  // No more cables, for the acceptor or the dialer's address.
};

struct Verdict {
  VerdictCode code;
  std::uint32_t limit;  // The acceptor's nodes_max with the kTooMany codes; otherwise 0.
};
static_assert(sizeof(Verdict) == 8);

}  // namespace mlxcomm::wire

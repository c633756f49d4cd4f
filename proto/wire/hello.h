// How two daemons prove to each other, on a new connection, that they hold the
// same cluster's key; nothing else is parsed before that.
//
//   dialer                                   acceptor
//   Greeting(nonce_d) ────────────────────▶
//            ◀──────────────────────────────  Greeting(nonce_a)
//   Proof(node, interface, HMAC) ─────────▶   checked first: a stranger learns nothing
//            ◀──────────────────────────────  Proof(node, interface, HMAC), Verdict
//   Introduction ─────────────────────────▶
//            ◀──────────────────────────────  Introduction; then frames
//
// Each HMAC-SHA256 (RFC 2104, keyed with the cluster's key) is over the sender's
// role, the dialer's and the acceptor's greeting, and the message itself. So
// version, cluster and both nonces are covered, and nothing can be replayed or
// reflected. Verdicts and frames are not covered: connections are not encrypted.
//
// Owner: none, plain values. Thread: any. Memory: none.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace mlxcomm::wire {

inline constexpr std::uint64_t kGreetingMagic = 0x6d6c78636f6d6d70;  // "mlxcommp"
inline constexpr std::uint32_t kWireVersion = 3;
inline constexpr std::size_t kNameBytesMax = 64;
inline constexpr std::size_t kInterfaceBytesMax = 48;  // A name, or any address as text.
inline constexpr std::size_t kClusterKeyBytes = 32;

using Nonce = std::array<std::uint8_t, 32>;
using Mac = std::array<std::uint8_t, 32>;
using NodeIdBytes = std::array<std::uint8_t, 16>;

struct Greeting {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;              // Zero.
  char cluster[kNameBytesMax];         // NUL-padded.
  Nonce nonce;
};
static_assert(sizeof(Greeting) == 112 && std::is_trivially_copyable_v<Greeting>);

// With both interfaces' names both sides know which rail this is to become, before
// either introduces itself (fabric/rail_path.h).
struct Proof {
  NodeIdBytes node_id;
  char interface_name[kInterfaceBytesMax];  // The sender's end; NUL-padded, never empty.
  Mac mac;  // HMAC(key, role | greetings | all of the above).
};
static_assert(sizeof(Proof) == 96 && std::is_trivially_copyable_v<Proof>);

// Who is speaking, and where its channel to the other side stands. A rail joins the
// channel that there is when both sides name each other's current session; otherwise
// both begin anew at sequence 1.
struct Introduction {
  std::uint64_t incarnation;           // Random, new with each start of a daemon.
  std::uint64_t session;               // This side's channel session, never 0.
  std::uint64_t known_peer_session;    // The other side's, as last known; 0 = none.
  std::uint64_t next_expected;         // All below it has been received: an acknowledgement.
  char node_name[kNameBytesMax];       // NUL-padded.
  char software_version[32];           // NUL-padded; shown in status.
  Mac mac;                             // HMAC(key, role | greetings | all of the above).
};
static_assert(sizeof(Introduction) == 160 && std::is_trivially_copyable_v<Introduction>);

enum class VerdictCode : std::uint32_t {
  kAccepted = 1,
  kAlreadyLinked = 2,  // Another connection between the two is preferred.
  kSelf = 3,           // The dialer has reached itself.
  kStopping = 4,
};

struct Verdict {
  VerdictCode code;
  std::uint32_t reserved;
};
static_assert(sizeof(Verdict) == 8);

}  // namespace mlxcomm::wire

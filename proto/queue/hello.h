// The first bytes on the Unix socket between a local process and its daemon, before the connection
// becomes a gRPC channel.
//
//   process                                daemon
//   ClientHello ─────────────────────────▶ peer credentials, limits
//            ◀───────────────────────────── DaemonHello + descriptors (SCM_RIGHTS)
//   from here on the same connection speaks gRPC
//
// The sizes are fixed, so that neither side reads a byte of gRPC. A kClient gets arena, queue and
// doorbell, in this order. A tool gets only a doorbell; end-of-file on it shows a dead daemon.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "proto/queue/scheduling_policy.h"
#include "proto/types/failure.h"

namespace mlxcomm::queue {

inline constexpr std::uint64_t kClientHelloMagic = 0x6d6c78636f6d6d63;  // "mlxcommc"
inline constexpr std::uint64_t kDaemonHelloMagic = 0x6d6c78636f6d6d64;  // "mlxcommd"
inline constexpr std::uint32_t kHelloVersion = 2;
inline constexpr int kClientDescriptors = 3;
inline constexpr int kToolDescriptors = 1;
inline constexpr std::size_t kTokenBytes = 16;
// The gRPC metadata key for the session's token in each call.
inline constexpr char kTokenMetadataKey[] = "mlxcomm-session-bin";

// A private daemon keeps running for a kLauncher, a tool that asks for the job's result.
enum class ProcessRole : std::uint32_t { kClient = 1, kTool = 2, kLauncher = 3 };

struct ClientHello {
  std::uint64_t magic;
  std::uint32_t version;
  ProcessRole role;
  std::uint64_t arena_bytes;  // A kClient's request; 0 = the daemon's default.
  std::uint64_t reserved;     // Zero.
};
static_assert(sizeof(ClientHello) == 32 && std::is_trivially_copyable_v<ClientHello>);

struct DaemonHello {
  std::uint64_t magic;
  std::uint32_t version;     // The daemon's, even in a refusal.
  FailureCode failure_code;  // 0: accepted.
  Scheduling scheduling;     // Configured for this node, like spin_ms (config.proto).
  std::uint16_t spin_ms;
  std::uint64_t arena_bytes;  // Granted; at most the request.
  std::array<std::uint8_t, kTokenBytes> token;
  char message[208];                    // The reason for a refusal, and the remedy; NUL-terminated.
  std::uint64_t rendezvous_timeout_ns;  // The default for attaches; 0: not sent.
};
static_assert(sizeof(DaemonHello) == 256 && std::is_trivially_copyable_v<DaemonHello>);

}  // namespace mlxcomm::queue

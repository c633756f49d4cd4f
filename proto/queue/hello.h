// The first bytes on the Unix socket between a local process and its daemon, before the connection becomes
// a gRPC channel.
//
//   process                                daemon
//   ClientHello ─────────────────────────▶ peer credentials, limits
//            ◀───────────────────────────── DaemonHello + descriptors (SCM_RIGHTS)
//   from here on the very same connection speaks gRPC
//
// Sizes are fixed, so that neither side can swallow a byte of what follows. A training process (role
// kClient) gets three descriptors, in this order: arena, queue, doorbell. A tool (role kTool) gets one: a
// doorbell that is never rung; end-of-file on it shows the daemon's death in the same way.
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
// gRPC metadata key under which each call repeats the session's token.
inline constexpr char kTokenMetadataKey[] = "mlxcomm-session-bin";

// kLauncher is a tool for which a private daemon stays: it asks how the job went.
enum class ProcessRole : std::uint32_t { kClient = 1, kTool = 2, kLauncher = 3 };

struct ClientHello {
  std::uint64_t magic;
  std::uint32_t version;
  ProcessRole role;
  std::uint64_t arena_bytes;  // Wanted; 0 = the daemon's default. Of the others 0.
  std::uint64_t reserved;     // Zero.
};
static_assert(sizeof(ClientHello) == 32 && std::is_trivially_copyable_v<ClientHello>);

struct DaemonHello {
  std::uint64_t magic;
  std::uint32_t version;     // The daemon's, also when it refuses.
  FailureCode failure_code;  // 0: accepted.
  // The side named for this node; kAuto: none was named.
  Scheduling scheduling;
  std::uint8_t reserved[2];
  std::uint64_t arena_bytes;  // Granted; at most what was wanted.
  std::array<std::uint8_t, kTokenBytes> token;
  char message[208];                    // The reason for a refusal, and what to do; NUL-terminated.
  std::uint64_t rendezvous_timeout_ns;  // For attaches that name none; 0: it does not say.
};
static_assert(sizeof(DaemonHello) == 256 && std::is_trivially_copyable_v<DaemonHello>);

}  // namespace mlxcomm::queue

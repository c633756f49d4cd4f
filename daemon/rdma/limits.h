// The numbers and rules of queue pairs that rails keep to, each with its source. Where reports
// disagree, the choice and its reason are here; the configuration can change it (RdmaConfig).
//
//   [TN]      Apple, TN3205 "Low-latency communication with RDMA over Thunderbolt" (2026)
//   [mlx N]   github.com/ml-explore/mlx/issues/N
//   [llama]   llama.cpp, ggml/src/ggml-rpc/transport-apple.cpp (runs on such Macs)
//   [tbv N]   github.com/hellas-ai/thunderbolt-ibverbs/pull/N
//   [rdma-vm] soft-RoCE of Linux 6.1, as tried by this project
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace mlxcomm::rdma {

// The minimum of messages in each direction: one is kept for credit, and one is always in flight.
inline constexpr std::uint32_t kMessagesMin = 4;

namespace apple {

// Thunderbolt moves frames of 4 KiB. Queue depths count frames, not work requests [TN].
inline constexpr std::uint32_t kFrameBytes = 4096;
// The deepest queue, in frames. The system may grant less; ibv_query_qp returns what it granted
// [TN].
inline constexpr std::uint32_t kFramesMax = 4095;
inline constexpr std::uint32_t kMessageBytesMax = kFrameBytes * kFramesMax;
static_assert(kMessageBytesMax == 16'773'120);
// All processes on a device share these; beyond them every ibv_create_qp fails with EBUSY ([TN],
// [mlx 3162]).
inline constexpr std::uint32_t kQueuePairsMax = 10;
// A region across such a boundary is registered, but its data is corrupted
// (kvcache-ai/Mooncake#2017 and others).
inline constexpr std::uint64_t kRegionBoundary = std::uint64_t{1} << 32;
// Scatter-gather entries of a work request; there are no shared receive queues [TN].
inline constexpr std::uint32_t kEntriesMax = 1;
// macOS names a device after its cable's interface: rdma_en2, en2 [TN].
inline constexpr char kDevicePrefix[] = "rdma_";

}  // namespace apple

// Unreliable connected (all that Apple has [TN]): a message arrives whole, once and in order, or is
// lost silently. Reliable connected: in order, or the queue pair fails. It is used if a device has
// it.
enum class Service : std::uint8_t { kUnreliable, kReliable };

struct Limits {
  Service service = Service::kUnreliable;
  // The frame size in which a send and its receive must be equally long [TN]; 0: receives may be
  // longer.
  std::uint32_t equal_frame_bytes = apple::kFrameBytes;
  std::uint32_t frames_max = apple::kFramesMax;  // Posted in each direction of a queue pair.
  // The largest message of this side's device; reported to a neighbour that offers larger ones
  // (setup.h).
  std::uint32_t message_bytes_max = apple::kMessageBytesMax;
  std::uint32_t queue_pairs_max = apple::kQueuePairsMax;
  // After about this many on a device, ibv_reg_mr returns NULL [mlx 3162].
  std::uint32_t regions_max = 100;
  // Well below the boundary; others have used it without trouble.
  std::uint64_t region_bytes_max = std::uint64_t{1} << 30;
  // For clients' arenas: other processes need some (MLX a few dozen), and each queue pair one.
  std::uint32_t arena_regions_max = 48;
  // Registering pins the pages, so a region should be used soon as a whole.
  std::uint64_t arena_region_bytes = std::uint64_t{256} << 20;
  // A registered region must not cross a multiple of this; 0: no limit.
  std::uint64_t region_boundary = apple::kRegionBoundary;
  // Access flags of regions: local write only, or remote read and write as well. SEND and RECV need
  // only the former (ibv_reg_mr(3)), but Apple's driver has refused it [llama], and MLX requests
  // all three. No peer can use them: only SEND is posted, and the keys are never sent.
  bool remote_access = true;
  // Receives are posted once the queue pair is ready to send, or before it is ready to receive.
  // Verbs accept them from INIT on (ibv_post_recv(3)), but Apple's driver has refused them before
  // RTS [llama]. Both are safe: no side sends before it knows that the other has posted (setup.h).
  bool receives_after_ready = true;
  // Completions raise events. Without them, an idle rail polls now and then.
  bool completion_events = true;

  // The size of all messages. Reports disagree: on one system only 4 KiB was reliable with many in
  // flight; MLX (macOS 26.3 and later) and [llama] use 16 KiB to 128 KiB. This fits an eager frame
  // with its header, and a small frame costs little more than its own size.
  std::uint32_t message_bytes = 5 * apple::kFrameBytes;
  // Receives posted, and so messages in flight. In [tbv 35] the 64th receive was refused although
  // the queue was to be deeper; MLX uses 32, and so does this.
  std::uint32_t messages_max = 32;

  std::uint32_t FramesIn(std::uint32_t bytes) const {
    return equal_frame_bytes == 0 ? 1 : (bytes + equal_frame_bytes - 1) / equal_frame_bytes;
  }
};

// Returns the limits for a kern.osproductversion ("26.2.1"); an unknown version counts as a later
// one. Before macOS 26.3, MLX sends messages of one frame (jaccl/lib/jaccl/rdma.h,
// buffer_size_from_message), so longer ones are not trusted.
inline Limits AppleLimits(absl::string_view macos_version) {
  const std::vector<absl::string_view> parts = absl::StrSplit(macos_version, '.');
  int major = 0;
  int minor = 0;
  const bool known = absl::SimpleAtoi(parts[0], &major);
  if (parts.size() > 1) static_cast<void>(absl::SimpleAtoi(parts[1], &minor));
  Limits limits;
  if (!known || major > 26 || (major == 26 && minor >= 3)) return limits;
  limits.message_bytes = limits.message_bytes_max = apple::kFrameBytes;
  return limits;
}

// Soft-RoCE and network cards on Linux, before the device was queried [rdma-vm].
inline Limits LinuxLimits() {
  return {.service = Service::kReliable,
          .equal_frame_bytes = 0,
          .frames_max = 16384,
          .message_bytes_max = 1u << 30,
          .queue_pairs_max = 1u << 16,
          .regions_max = 1u << 16,
          .arena_regions_max = 256,
          .region_boundary = 0,
          .remote_access = false,
          .receives_after_ready = false,
          .message_bytes = 32 * 1024,
          .messages_max = 64};
}

}  // namespace mlxcomm::rdma

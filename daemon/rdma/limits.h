// What a device's queue pairs can do, and what Apple's can do: the numbers and rules that the
// rail keeps to, each with where it is from. Where reports disagree the choice is here, with
// its reason, and can be set in the configuration (RdmaConfig).
//
// Sources:
//   [TN]      Apple, TN3205 "Low-latency communication with RDMA over Thunderbolt" (2026)
//   [mlx N]   github.com/ml-explore/mlx/issues/N
//   [llama]   llama.cpp, ggml/src/ggml-rpc/transport-apple.cpp (what runs there on such Macs)
//   [tbv N]   github.com/hellas-ai/thunderbolt-ibverbs/pull/N
//   [rdma-vm] soft-RoCE of Linux 6.1, as tried by this project
//
// Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace mlxcomm::rdma {

// Fewer messages each way are no queue: one is kept for credit, and one is always on its way.
inline constexpr std::uint32_t kMessagesMin = 4;

namespace apple {

// Thunderbolt moves frames of 4 KiB; depths of queues are counted in them, not in work
// requests [TN].
inline constexpr std::uint32_t kFrameBytes = 4096;
// The deepest queue, in frames. The system may grant less: what ibv_query_qp says counts [TN].
inline constexpr std::uint32_t kFramesMax = 4095;
// So the largest message [TN].
inline constexpr std::uint32_t kMessageBytesMax = kFrameBytes * kFramesMax;
static_assert(kMessageBytesMax == 16'773'120);
// Of a device, for all processes together; the next ibv_create_qp fails with EBUSY, and goes
// on doing so ([TN], [mlx 3162]).
inline constexpr std::uint32_t kQueuePairsMax = 10;
// Of a device; after about this many, the next ibv_reg_mr gives NULL [mlx 3162].
inline constexpr std::uint32_t kRegionsMax = 100;
// A region that reaches over such a boundary is registered, and then what is sent from it, or
// received, is wrong (reports on large pools; kvcache-ai/Mooncake#2017 is one).
inline constexpr std::uint64_t kRegionBoundary = std::uint64_t{1} << 32;
// Well below that, and what others have used without harm.
inline constexpr std::uint64_t kRegionBytesMax = std::uint64_t{1} << 30;
// Of those, at most this many for clients' arenas: other processes have theirs (MLX a few dozen),
// and each queue pair here has one.
inline constexpr std::uint32_t kArenaRegionsMax = 48;
// Of an arena in one region. All of its pages are held in memory then, so not more than is
// likely to be used soon.
inline constexpr std::uint64_t kArenaRegionBytes = std::uint64_t{256} << 20;
// Scatter-gather entries of a work request; no shared receive queues [TN].
inline constexpr std::uint32_t kEntriesMax = 1;
// On macOS a device is called after the interface whose cable it is on: rdma_en2, en2 [TN].
inline constexpr char kDevicePrefix[] = "rdma_";

}  // namespace apple

// Unreliable connected: a message arrives whole, once and in order, or not at all, and nobody
// learns of it. Reliable connected: in order, or the queue pair has failed. Apple has only the
// former [TN]; where a device has the latter it is used.
enum class Service : std::uint8_t { kUnreliable, kReliable };

struct Limits {
  Service service = Service::kUnreliable;
  // A send and the receive that takes it must be of equally many frames [TN]. So all messages
  // are of one size, whatever they carry. 0: messages may be shorter than their receive.
  std::uint32_t equal_frame_bytes = apple::kFrameBytes;
  std::uint32_t frames_max = apple::kFramesMax;  // Each way, posted on a queue pair at once.
  // The largest that this side's device can send and receive. A neighbour that offers larger ones
  // learns it (setup.h).
  std::uint32_t message_bytes_max = apple::kMessageBytesMax;
  std::uint32_t queue_pairs_max = apple::kQueuePairsMax;
  std::uint32_t regions_max = apple::kRegionsMax;
  std::uint64_t region_bytes_max = apple::kRegionBytesMax;
  std::uint32_t arena_regions_max = apple::kArenaRegionsMax;
  std::uint64_t arena_region_bytes = apple::kArenaRegionBytes;
  // Where memory that is registered may not lie; 0: anywhere.
  std::uint64_t region_boundary = apple::kRegionBoundary;
  // Access flags of regions: local write alone, or remote read and write as well. The former is
  // all that SEND and RECV need (ibv_reg_mr(3)); Apple's driver has been seen to refuse it
  // [llama], and MLX asks for all three. Nobody can use them: only SEND is posted on either
  // side, and nobody gets the keys.
  bool remote_access = true;
  // Receives are posted when the queue pair is ready to send, or before it is ready to receive.
  // Verbs take them from INIT on (ibv_post_recv(3)); Apple's driver has been seen to refuse
  // them before RTS [llama]. Either is safe here: no side sends before it knows that the other
  // has posted (setup.h).
  bool receives_after_ready = true;
  // The queue pair is moved to the error state before it is destroyed, which returns what was
  // posted. Apple's driver then fails to unmap every region [llama], so it is just destroyed.
  bool error_before_destroy = false;
  // Completions can be waited for. Else an idle rail looks for them now and then.
  bool completion_events = true;

  // The size of all messages. Reports disagree: 4 KiB alone was clean with many under way on
  // one system, 16 KiB to 128 KiB is what MLX [macOS 26.3 and later] and [llama] use. Taken: an
  // eager frame and its header fit, and a small one does not cost much more than it is.
  std::uint32_t message_bytes = 5 * apple::kFrameBytes;
  // Receives posted, and so messages under way. [tbv 35] had the 64th receive refused where
  // the queue was asked to be deeper, MLX has 32: that is taken.
  std::uint32_t messages_max = 32;

  // What of it is available: equally many messages each way, none larger than may be.
  std::uint32_t MessagesWithin(std::uint32_t granted_frames) const {
    const std::uint32_t frames_each =
        equal_frame_bytes == 0 ? 1 : (message_bytes + equal_frame_bytes - 1) / equal_frame_bytes;
    return std::min(messages_max, std::min(granted_frames, frames_max) / frames_each);
  }
  // How deep a queue to ask for.
  std::uint32_t DepthWanted() const {
    return equal_frame_bytes == 0
               ? messages_max
               : messages_max * ((message_bytes + equal_frame_bytes - 1) / equal_frame_bytes);
  }
};

// Of Apple's devices, by what kern.osproductversion says ("26.2.1"). Before macOS 26.3 MLX sends one
// frame a message, and from there on several (jaccl/lib/jaccl/rdma.h, buffer_size_from_message), so
// messages of more are not trusted there. A version that is not known is taken for a later one.
inline Limits AppleLimits(std::string_view macos_version) {
  const auto number = [&macos_version]() -> std::uint32_t {
    std::uint32_t value = 0;
    while (!macos_version.empty() && macos_version[0] >= '0' && macos_version[0] <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(macos_version[0] - '0');
      macos_version.remove_prefix(1);
    }
    if (!macos_version.empty()) macos_version.remove_prefix(1);  // The point.
    return value;
  };
  Limits limits;
  const std::uint32_t major = number();
  const std::uint32_t minor = number();
  if (major == 0 || major > 26 || (major == 26 && minor >= 3)) return limits;
  limits.message_bytes = limits.message_bytes_max = apple::kFrameBytes;
  return limits;
}

// Of soft-RoCE and network cards on Linux, before the device has been asked: it says how many
// there may be of what. Messages may be shorter than their receives [rdma-vm].
inline Limits LinuxLimits() {
  return {.service = Service::kReliable,
          .equal_frame_bytes = 0,
          .frames_max = 16384,
          .message_bytes_max = 1u << 30,
          .queue_pairs_max = 1u << 16,
          .regions_max = 1u << 16,
          .region_bytes_max = std::uint64_t{1} << 30,
          .arena_regions_max = 256,
          .region_boundary = 0,
          .remote_access = false,
          .receives_after_ready = false,
          .error_before_destroy = true,
          .message_bytes = 32 * 1024,
          .messages_max = 64};
}

}  // namespace mlxcomm::rdma

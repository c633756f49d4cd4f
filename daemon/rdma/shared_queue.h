// A queue pair as memory shared by the daemon and the process that calls its driver
// (driver_process.h): requests go one way, completions the other.
//
//   segment: [QueueHeader] [requests ...] [completions ...] | [slots: receives, then sends]
//                                                page boundary ┘
//
// The rings are those between a client and its daemon (proto/queue/ring.h). A slot is posted at
// most once at a time, so rings with an entry for each slot are never full. A doorbell
// (proto/queue/doorbell.h) wakes the side that sleeps; its end means that the other process is
// gone.
//
// Owner: a driver process and its parent. Thread: one for each end of a ring. Memory: the segment.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "daemon/rdma/queue_pair.h"
#include "proto/queue/layout.h"

namespace mlxcomm::rdma {

struct PostRequest {
  enum class Kind : std::uint32_t { kReceive = 1, kSend, kSendFrom };
  Kind kind;
  std::uint32_t slot;
  std::uint32_t bytes;   // Sends.
  std::uint32_t region;  // kSendFrom: the daemon's number of the region; `offset` lies in it.
  std::uint64_t offset;
  std::uint64_t reserved;  // Zero.
};
static_assert(sizeof(PostRequest) == 32 && std::is_trivially_copyable_v<PostRequest>);

struct PostCompletion {
  std::uint32_t slot;
  std::uint32_t receive;  // 1: a receive; 0: a send.
  std::uint32_t bytes;    // Set for a receive.
};
static_assert(sizeof(PostCompletion) == 12 && std::is_trivially_copyable_v<PostCompletion>);

struct QueueHeader {
  queue::RingPositions requests;     // Written by the daemon.
  queue::RingPositions completions;  // Written by the driver's process.
  // Set once by the driver's process: the queue pair is unusable.
  std::atomic<std::uint32_t> has_failed;
  std::array<char, 252> why;  // NUL-terminated, written before has_failed.
};

// Offsets in the segment.
struct QueueLayout {
  explicit QueueLayout(const QueuePairShape& shape) : entries(std::bit_ceil(2 * shape.messages)) {
    const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    requests = sizeof(QueueHeader);
    completions = requests + entries * sizeof(PostRequest);
    const std::size_t end = completions + entries * sizeof(PostCompletion);
    slots = (end + page_bytes - 1) / page_bytes * page_bytes;
    bytes = slots + std::size_t{2} * shape.messages * shape.message_bytes;
  }

  std::uint32_t entries;  // Each ring has this many.
  std::size_t requests = 0;
  std::size_t completions = 0;
  std::size_t slots = 0;
  std::size_t bytes = 0;
};

}  // namespace mlxcomm::rdma

// One queue pair between the daemon and the process that calls its driver (driver_process.h), as
// memory that both have mapped: what is to be posted goes one way, what has completed the other.
//
//   segment: [QueueHeader] [requests ...] [completions ...] | [slots: receives, then sends]
//                                                page boundary ┘
//
// Rings and their rules are those of the queue between a client and its daemon (proto/queue/ring.h):
// an entry is copied once, and the copy is checked. Each slot is posted once until it completes, so
// rings of as many entries as there are slots are never full. A doorbell (proto/queue/doorbell.h)
// wakes the side that sleeps, and its end tells that the other process has gone.
//
// Owner: a driver process and the one that started it. Thread: one for each end of a
// ring. Memory: the segment.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "proto/queue/layout.h"

namespace mlxcomm::rdma {

struct PostRequest {
  enum class Kind : std::uint32_t { kReceive = 1, kSend, kSendFrom };
  Kind kind;
  std::uint32_t slot;
  std::uint32_t bytes;   // Sends.
  std::uint32_t region;  // kSendFrom: as the daemon has numbered it, and where in it.
  std::uint64_t offset;
  std::uint64_t reserved;  // Zero.
};
static_assert(sizeof(PostRequest) == 32 && std::is_trivially_copyable_v<PostRequest>);

struct PostCompletion {
  std::uint32_t slot;
  std::uint32_t receive;  // 1: one; 0: a send.
  std::uint32_t ok;       // 0: QueueHeader::why says more.
  std::uint32_t bytes;    // Of a receive that is ok.
};
static_assert(sizeof(PostCompletion) == 16 && std::is_trivially_copyable_v<PostCompletion>);

// What proto/queue/ring.h wants to know of entries.
inline std::size_t UsedBytes(const PostRequest&) { return sizeof(PostRequest); }
inline std::size_t UsedBytes(const PostCompletion&) { return sizeof(PostCompletion); }
inline void CopyOut(PostRequest& copy, const PostRequest& slot) {
  std::memcpy(&copy, &slot, sizeof copy);
}
inline void CopyOut(PostCompletion& copy, const PostCompletion& slot) {
  std::memcpy(&copy, &slot, sizeof copy);
}

struct QueueHeader {
  queue::RingPositions requests;     // The daemon writes, the driver's process reads.
  queue::RingPositions completions;  // And the other way.
  // Set once, by the driver's process: the queue pair is of no use any more, and why.
  std::atomic<std::uint32_t> has_failed;
  std::array<char, 252> why;  // NUL-terminated, and before has_failed; also of a completion.
};

// Where each part lies, for `messages` messages each way.
struct QueueLayout {
  QueueLayout(std::uint32_t messages, std::uint32_t message_bytes, std::size_t page_bytes)
      : entries(std::bit_ceil(2 * messages)) {
    requests = sizeof(QueueHeader);
    completions = requests + entries * sizeof(PostRequest);
    const std::size_t end = completions + entries * sizeof(PostCompletion);
    slots = (end + page_bytes - 1) / page_bytes * page_bytes;
    bytes = slots + std::size_t{2} * messages * message_bytes;
  }

  std::uint32_t entries;  // Of either ring.
  std::size_t requests = 0;
  std::size_t completions = 0;
  std::size_t slots = 0;
  std::size_t bytes = 0;
};

}  // namespace mlxcomm::rdma

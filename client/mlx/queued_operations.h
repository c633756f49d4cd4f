// Operations that MLX has been given and that have not ended: on its streams, waiting for earlier
// ones, for memory, or for other ranks.
//
// A program may end with some of them left (mlx-lm's generate always leaves one), which other ranks
// still need; so a program that ends waits until there are none (process_end.h; in Python
// mlxcomm/groups.py).
//
// Owner: the process; never destroyed, because MLX's threads outlive much. Thread: any. Memory:
// numbers.
#pragma once

#include <chrono>
#include <cstdint>

namespace mlxcomm::graph {

// From when MLX gets it until it has ended, or was thrown away.
class QueuedOperation {
 public:
  QueuedOperation();
  ~QueuedOperation();
  QueuedOperation(const QueuedOperation&) = delete;
  QueuedOperation& operator=(const QueuedOperation&) = delete;

  // Waits until there are none, for at most this long, and returns how many there are; `ended`: how
  // many this process has had that have ended.
  static std::uint64_t AwaitNone(std::chrono::milliseconds most, std::uint64_t& ended);
};

}  // namespace mlxcomm::graph

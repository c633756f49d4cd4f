// Operations that MLX has been given and that have not ended: on its streams, waiting for what comes
// before them, for memory, or for other ranks.
//
// A program may end with some of them left (mlx-lm's generate always leaves one), which other ranks
// still need; so who ends waits until there are none (process_end.h; in Python mlxcomm/groups.py).
//
// Owner: the process; never destroyed, for MLX's threads outlive much. Thread: any. Memory: numbers.
#pragma once

#include <chrono>
#include <cstdint>

namespace mlxcomm::graph {

// From its being given to MLX until it has ended, or was thrown away.
class QueuedOperation {
 public:
  QueuedOperation();
  ~QueuedOperation();
  QueuedOperation(const QueuedOperation&) = delete;
  QueuedOperation& operator=(const QueuedOperation&) = delete;

  // How many there are, waiting for at most so long until there are none; `ended`: how many have been
  // and gone in this process.
  static std::uint64_t AwaitNone(std::chrono::milliseconds most, std::uint64_t& ended);
};

}  // namespace mlxcomm::graph

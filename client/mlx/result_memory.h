// The memory of an operation's result.
//
//   shared  the array's memory is a range of the arena, where the daemon writes the result
//   reused  the same; the range is the input's
//   copied  the array has MLX's memory, and the result is copied there from a range that exists
//           during the operation: if Metal does not accept the arena's memory (SharedBuffer), or
//           with MLXCOMM_RESULTS=copy
//
// Owner: the operation's task and the array, because a failed evaluation drops its arrays while
// tasks still run. Thread: Give and Reuse on the evaluating thread, the rest on the stream's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "client/mlx/arena_arrays.h"
#include "mlx/array.h"

namespace mlxcomm::graph {

class ResultMemory {
 public:
  // Allocates the array's memory; throws OperationError if the arena is full.
  static std::shared_ptr<ResultMemory> Give(mlx::core::array& output,
                                            const std::shared_ptr<Connected>& connected);

  // Gives the output the input's memory, which is in the arena.
  static std::shared_ptr<ResultMemory> Reuse(mlx::core::array& output,
                                             const mlx::core::array& input);

  std::uint64_t bytes() const { return bytes_; }
  // Returns where the daemon writes the result; throws as Give does.
  std::byte* Begin();
  // The operation has succeeded: copies the result into the array if necessary.
  void End();

 private:
  struct OwnMemory;  // MLX's, shared by the array and the task.

  std::shared_ptr<Connected> connected_;
  std::shared_ptr<ArenaRange> range_;  // shared
  std::shared_ptr<mlx::core::array::Data> reused_;
  std::byte* reused_data_ = nullptr;       // reused
  std::shared_ptr<OwnMemory> own_memory_;  // copied
  ArenaRange running_;                     // copied, from Begin to End
  std::uint64_t bytes_ = 0;
};

// Returns whether MLXCOMM_RESULTS is "copy"; read once. Throws std::invalid_argument unless it is
// "copy", "share" or empty.
bool CopiesResults();

// Tries the arena's memory, and returns "" if MLX accepts it, otherwise why results are copied.
// With `reads` the default device also reads it; wrong contents mean wrong results, not copies.
std::string WhyResultsAreCopied(const std::shared_ptr<Connected>& connected, bool reads);

}  // namespace mlxcomm::graph

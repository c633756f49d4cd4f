// Where the result of an operation lies, and how MLX gets it.
//
//   shared  a range of the arena is the array's memory: the daemon writes the result there
//   reused  the same, and the range is the input's
//   copied  the array has memory of MLX's own. A range is allocated when the operation begins,
//           copied from when it has succeeded, and freed: where Metal does not accept the arena's
//           memory (SharedBuffer), or where MLXCOMM_RESULTS=copy asks for it
//
// Owner: the operation's task; the array keeps its memory too, because an evaluation that raises
// drops its arrays while their tasks are under way. Thread: Give on the one that evaluates, the
// rest on the stream's. Memory: shared, the arena's; copied, MLX's, and the arena's while it runs.
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
  // Gives the array its memory; throws OperationError when the arena is full.
  static std::shared_ptr<ResultMemory> Give(mlx::core::array& output,
                                            const std::shared_ptr<Connected>& connected);

  // The output takes the input's memory, which lies in the arena.
  static std::shared_ptr<ResultMemory> Reuse(mlx::core::array& output,
                                             const mlx::core::array& input);

  std::uint64_t bytes() const { return bytes_; }
  // Where the daemon writes the result; throws as Give does.
  std::byte* Begin();
  // The operation has succeeded: from here on the array has the result. After a failure the
  // destructor frees the range.
  void End();

 private:
  struct OwnMemory;  // MLX's, as long as the array or the task needs it.

  std::shared_ptr<Connected> connected_;
  std::shared_ptr<ArenaRange> range_;  // shared
  std::shared_ptr<mlx::core::array::Data> reused_;
  std::byte* reused_data_ = nullptr;       // reused
  std::shared_ptr<OwnMemory> own_memory_;  // copied
  ArenaRange running_;                     // copied, from Begin to End
  std::uint64_t bytes_ = 0;
};

// The value of MLXCOMM_RESULTS, read once for the process: "copy"; "" or "share" by default. Throws
// std::invalid_argument on anything else.
bool CopyingIsAskedFor();

// Tries it: "" where MLX accepts the arena's memory and its default device reads the right
// contents, else why results are copied. With `reads` false nothing runs on the device, which takes
// only microseconds; a fault that only `reads` finds is no reason for copying: results are wrong
// then.
std::string WhyResultsAreCopied(const std::shared_ptr<Connected>& connected, bool reads);

}  // namespace mlxcomm::graph

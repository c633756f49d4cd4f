// Where the result of an operation comes to lie, and how MLX gets it.
//
//   shared  a range of the arena is the array's memory: what the daemon writes is the result
//   reused  the same, and it is the input's
//   copied  the array has memory of MLX's own. A range is taken when the operation begins, copied
//           from when it has ended well, and freed: where Metal does not take the arena's memory
//           (shared_buffer.h), or where MLXCOMM_RESULTS=copy asks for it
//
// Owner: the operation's task; the array has its memory with it, for an evaluation that raises drops
// its arrays while tasks of theirs are under way. Thread: Give on the one that evaluates, the rest on
// the stream's. Memory: shared, the arena's; copied, MLX's, and the arena's while it runs.
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

  // The output is to have the input's memory, which lies in the arena.
  static std::shared_ptr<ResultMemory> Reuse(mlx::core::array& output,
                                             const mlx::core::array& input);

  // Where the daemon writes the result; throws as Give does.
  std::byte* Begin();
  // The operation has ended well: from here on the array has the result. Of one that has failed the
  // range goes with this.
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

// What MLXCOMM_RESULTS says, once for the process: "copy"; "" or "share" by default. Throws
// std::invalid_argument on anything else.
bool CopyingIsAskedFor();

// Tries it: "" where MLX takes the arena's memory and reads on its default device what lies there, else
// why results are copied. With `reads` false nothing is run on the device, which takes microseconds;
// what only `reads` finds is no reason that results are copied for: they are wrong.
std::string WhyResultsAreCopied(const std::shared_ptr<Connected>& connected, bool reads);

}  // namespace mlxcomm::graph

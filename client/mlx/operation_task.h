// An operation as a task of MLX's CPU encoder: copies the input into the arena (unless it lies
// there already), submits, and waits. Outputs are arena memory, or copied from there
// (result_memory.h). The task throws a failure, so the evaluation raises it; a latched one is
// thrown before anything is scheduled. MLX before 0.32.1 survives neither: there the failure is
// handed to the evaluating thread (SetHandingOver), and the result is zeros or what came.
//
// Owner: MLX's stream, until it has run. Thread: MLX's stream threads. Memory: the arena's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "client/mlx/joined_group.h"
#include "client/mlx/operation.h"
#include "client/mlx/operation_error.h"
#include "mlx/array.h"
#include "mlx/stream.h"

namespace mlxcomm::graph {

// Since the module was loaded; for tests and for information.
struct Counters {
  std::atomic<std::uint64_t> operations{0};
  std::atomic<std::uint64_t> inputs_copied{0};
  std::atomic<std::uint64_t> inputs_in_arena{0};
  std::atomic<std::uint64_t> results_copied{0};
};
Counters& GetCounters();

// How a failure reaches the program where MLX cannot throw it. `here` is called on the thread that
// evaluates; its result is called on any thread, before the evaluation returns, and has the failure raised
// there afterwards. Empty: the process ends.
using HandOver = std::function<void(const FailureDetails&)>;
void SetHandingOver(HandOver (*here)());

// Gives the output its memory and schedules the operation. `input` (row-contiguous)
// and `output` are null where the operation does not read or write on this rank.
void Schedule(const std::shared_ptr<JoinedGroup>& joined, const Operation& operation,
              const mlx::core::array* input, mlx::core::array* output, mlx::core::Stream stream);

}  // namespace mlxcomm::graph

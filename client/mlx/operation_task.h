// An operation as a task of MLX's CPU encoder: copies the input into the arena (unless it is there
// already), submits, and waits. The output is arena memory, or copied from there (result_memory.h).
// A failure is thrown from the task, or before scheduling if the group has failed already. MLX
// before 0.32.1 survives neither, so the failure is handed to the evaluating thread (SetHandOver),
// and the result is undefined.
//
// Owner: MLX's stream. Thread: MLX's stream threads. Memory: the arena's.
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

// Counts since the module was loaded.
struct Counters {
  std::atomic<std::uint64_t> operations{0};
  std::atomic<std::uint64_t> inputs_copied{0};
  std::atomic<std::uint64_t> inputs_in_arena{0};
  std::atomic<std::uint64_t> results_copied{0};
};
Counters& GetCounters();

// Brings a failure to the program if MLX cannot throw it. `make` is called on the evaluating
// thread; its result, called on any thread before the evaluation returns, must raise the failure
// there. If empty, the process exits.
using HandOver = std::function<void(const FailureDetails&)>;
void SetHandOver(HandOver (*make)());

// Allocates the output and schedules the operation. `input` (row-contiguous) or `output` is null if
// this rank does not read or write.
void Schedule(const std::shared_ptr<JoinedGroup>& joined, const Operation& operation,
              const mlx::core::array* input, mlx::core::array* output, mlx::core::Stream stream);

}  // namespace mlxcomm::graph

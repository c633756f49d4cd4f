// One call's kind, operator, other rank and tables, as both the primitive and MLX's GroupImpl
// describe it. Arrays are bound when it is carried out, so an Operation can be compared, and
// reversed for a gradient, before any array has memory.
//
// "Rows" are slices along the leading axis: tables count rows, so they stay true when vmap widens a
// row.
//
// Owner: a primitive or a task. Thread: any. Memory: plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/lib/mlxcomm.h"
#include "client/mlx/call_check.h"
#include "client/mlx/joined_group.h"
#include "mlx/array.h"
#include "proto/types/operation.h"

namespace mlxcomm::graph {

struct Operation {
  OperationKind kind = OperationKind::kAllReduce;
  mlxcomm_operator op = MLXCOMM_SUM;
  std::uint32_t root = 0;  // send: the destination; receive: the source.
  std::uint32_t tag = 0;
  std::vector<std::uint64_t> send_rows = {};     // If the kind HasCounts.
  std::vector<std::uint64_t> receive_rows = {};  // The second table.
  mlx::core::Shape shape = {};                   // receive and scatter: this rank's result.
  std::uint64_t timeout_ns = 0;                  // 0 means the group's.
  // Nothing else reads the input, now or for a gradient, so the result may take its memory.
  bool consumes_input = false;
  std::shared_ptr<CheckedCall> checked = nullptr;  // Set with MLXCOMM_CHECK.

  bool Reads(std::uint32_t rank) const { return RowOf(kind).input.IsOn(rank, root); }
  bool Writes(std::uint32_t rank) const { return RowOf(kind).output.IsOn(rank, root); }
};

// Throws std::invalid_argument if the operator does not support the dtype.
void CheckOperator(mlx::core::Dtype type, mlxcomm_operator op);
mlxcomm_data_type DataTypeOf(mlx::core::Dtype type);

// The request for an operation on these arrays, except for pointers; the operation's tables count
// elements afterwards. Arrays that are not read or not written may be null.
mlxcomm_request Bind(Operation& operation, std::uint32_t size, const mlx::core::array* input,
                     const mlx::core::array* output);

}  // namespace mlxcomm::graph

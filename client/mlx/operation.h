// Describes one operation: kind, operator, other rank, tables. Arrays are bound when it runs. Tables count
// rows (slices along the leading axis), so that they remain valid when vmap makes rows wider.
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
  std::uint64_t timeout_ns = 0;                  // 0: the group's.
  // Nothing else reads the input, now or for a gradient, so the result may take its memory.
  bool consumes_input = false;
  std::shared_ptr<CheckedCall> checked = nullptr;  // With MLXCOMM_CHECK.

  bool Reads(std::uint32_t rank) const { return RowOf(kind).input.IsOn(rank, root); }
  bool Writes(std::uint32_t rank) const { return RowOf(kind).output.IsOn(rank, root); }
};

const char* NameOf(mlxcomm_operator op);
// Throws std::invalid_argument if the operator does not support the dtype.
void CheckOperator(mlx::core::Dtype type, mlxcomm_operator op);
mlxcomm_data_type DataTypeOf(mlx::core::Dtype type);

struct BoundOperation {
  Operation operation;
  mlxcomm_data_type type = MLXCOMM_FLOAT32;
  std::uint64_t count = 0;         // In the unit that mlxcomm.h defines for the kind.
  std::uint64_t row_elements = 1;  // Elements of one row; multiplies the tables.

  // An array that is not read or written may be null.
  static BoundOperation Bind(const Operation& operation, std::uint32_t size,
                             const mlx::core::array* input, const mlx::core::array* output);
  mlxcomm_code Start(mlxcomm_group* group, const void* input, void* output, std::uint64_t* ticket,
                     mlxcomm_error* error) const;
};

}  // namespace mlxcomm::graph

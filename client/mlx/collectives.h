// Builds the arrays that represent operations. Wrong arguments and shapes throw
// std::invalid_argument (Python: ValueError) at once, before another rank waits. In a group of one
// rank the results are plain MLX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/mlx/joined_group.h"
#include "client/mlx/operation.h"
#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlxcomm::graph {

struct Call {
  std::shared_ptr<JoinedGroup> group;  // Null for a group of one rank.
  mlx::core::StreamOrDevice stream = {};
  std::uint64_t timeout_ns = 0;
  // Evaluated before the operation; not read.
  std::optional<mlx::core::array> after = std::nullopt;
  // The call that this gradient or other transformation derives from.
  std::shared_ptr<CheckedCall> from = nullptr;

  std::uint32_t rank() const { return group == nullptr ? 0 : group->rank(); }
  std::uint32_t size() const { return group == nullptr ? 1 : group->size(); }
};

mlxcomm_operator OperatorNamed(const std::string& name);

mlx::core::Shape ResultShape(const JoinedGroup& group, const Operation& operation,
                             const mlx::core::Shape& input);

// Builds any operation with an input; the kind ignores fields that it does not use.
mlx::core::array Operate(const mlx::core::array& x, Operation operation, const Call& call);
// One all_reduce for each bucket of packing.h; bucket_bytes 0: for all arrays of one dtype. The
// order in which inputs are combined may differ from that of single all_reduces.
std::vector<mlx::core::array> AllReduceMany(const std::vector<mlx::core::array>& arrays,
                                            mlxcomm_operator op, std::size_t bucket_bytes,
                                            const Call& call);
// A scatter with a given result shape, for gradients: x is only a dependency on ranks other than
// the root.
mlx::core::array ScatterTo(const mlx::core::Shape& shape, const mlx::core::array& x,
                           std::uint32_t root, const Call& call);
// `after` is evaluated first and not read; its gradient is sent back to the source.
mlx::core::array Receive(const mlx::core::Shape& shape, mlx::core::Dtype type, std::uint32_t source,
                         std::uint32_t tag, const std::optional<mlx::core::array>& after,
                         const Call& call);

}  // namespace mlxcomm::graph

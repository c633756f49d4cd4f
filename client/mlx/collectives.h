// Builds the arrays that stand for operations. Checks arguments and shapes at once, on the rank
// that made the mistake, before any other rank waits for it.
//
// Mistakes are std::invalid_argument (Python: ValueError). A group of one rank has nothing to
// communicate: the results are plain MLX.
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
  std::shared_ptr<JoinedGroup> group;  // Null: a group of one rank.
  mlx::core::StreamOrDevice stream = {};
  std::uint64_t timeout_ns = 0;
  // Evaluated before the operation, and not read.
  std::optional<mlx::core::array> after = std::nullopt;
  // The call of which this one is a gradient or another transformation.
  std::shared_ptr<CheckedCall> from = nullptr;

  std::uint32_t rank() const { return group == nullptr ? 0 : group->rank(); }
  std::uint32_t size() const { return group == nullptr ? 1 : group->size(); }
};

mlxcomm_operator OperatorNamed(const std::string& name);

// The shape of this rank's result for an input of that shape.
mlx::core::Shape ResultShape(const JoinedGroup& group, const Operation& operation,
                             const mlx::core::Shape& input);

// Any operation that has an input; fields that the kind does not use are ignored.
mlx::core::array Operate(const mlx::core::array& x, Operation operation, const Call& call);
// For many arrays, each as with AllReduce except for the order in which its inputs are combined:
// one operation for each bucket of packing.h; all arrays of one dtype where bucket_bytes is 0.
std::vector<mlx::core::array> AllReduceMany(const std::vector<mlx::core::array>& arrays,
                                            mlxcomm_operator op, std::size_t bucket_bytes,
                                            const Call& call);
// A scatter to a given shape: for a gradient, where x is a mere dependency on all ranks but the
// root.
mlx::core::array ScatterTo(const mlx::core::Shape& shape, const mlx::core::array& x,
                           std::uint32_t root, const Call& call);
// `after` is not read: it is evaluated before, and gradients that flow to it go back to the source.
mlx::core::array Receive(const mlx::core::Shape& shape, mlx::core::Dtype type, std::uint32_t source,
                         std::uint32_t tag, const std::optional<mlx::core::array>& after,
                         const Call& call);

}  // namespace mlxcomm::graph

// An operation as a node of MLX's graph. Its inputs are the array that it reads, and optionally one
// that is only evaluated first.
//
// Owner: the arrays that depend on it. Thread: built and transformed on the caller's, evaluated by
// MLX. Memory: outputs are in the arena.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/mlx/collectives.h"
#include "client/mlx/joined_group.h"
#include "client/mlx/operation.h"
#include "mlx/primitives.h"

namespace mlxcomm::graph {

class CollectivePrimitive final : public mlx::core::Primitive {
 public:
  using array = mlx::core::array;  // NOLINT(readability-identifier-naming): MLX's own.

  CollectivePrimitive(mlx::core::Stream stream, std::shared_ptr<JoinedGroup> joined,
                      Operation operation, mlx::core::Dtype type)
      : Primitive(stream),
        joined_(std::move(joined)),
        operation_(std::move(operation)),
        type_(type) {}

  void eval_cpu(const std::vector<array>& inputs, std::vector<array>& outputs) override;
  void eval_gpu(const std::vector<array>& inputs, std::vector<array>& outputs) override;
  std::vector<array> jvp(const std::vector<array>& primals, const std::vector<array>& tangents,
                         const std::vector<int>& argnums) override;
  std::vector<array> vjp(const std::vector<array>& primals, const std::vector<array>& cotangents,
                         const std::vector<int>& argnums,
                         const std::vector<array>& outputs) override;
  std::pair<std::vector<array>, std::vector<int>> vmap(const std::vector<array>& inputs,
                                                       const std::vector<int>& axes) override;
  std::vector<mlx::core::Shape> output_shapes(const std::vector<array>& inputs) override;
  const char* name() const override { return OperationKindName(operation_.kind); }
  // mx.compile would merge equal operations on some ranks, and the other ranks would wait for the
  // second one.
  bool is_equivalent(const Primitive&) const override { return false; }

 private:
  // The call for an operation derived from this one.
  Call CallAfter(std::optional<array> before) {
    return {joined_, stream(), operation_.timeout_ns, std::move(before), operation_.checked};
  }
  array VjpOfReduction(const array& primal, const array& cotangent, const array& output);
  array GradientOf(const array& x, const array& cotangent, const array& output);
  array ApplyTo(const array& x, const Call& call);
  array VmappedOverFront(const array& x, const Call& call);
  array VmappedOverRows(const array& x, const Call& call);

  std::shared_ptr<JoinedGroup> joined_;
  Operation operation_;
  mlx::core::Dtype type_;  // The result's.
};

}  // namespace mlxcomm::graph

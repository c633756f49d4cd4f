#include "client/mlx/collective_primitive.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "client/mlx/operation_task.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

// Returns zeros that depend on `operation`, for a rank that contributes nothing to an adjoint but
// must run it.
mx::array ZerosAfter(const mx::array& like, const mx::array& operation) {
  return mx::where(mx::array(false), mx::sum(operation), mx::zeros_like(like));
}

mx::array OwnRows(const mx::array& gathered, std::int64_t begin, const mx::array& like) {
  mx::Shape starts(gathered.ndim(), 0);
  mx::Shape stops = gathered.shape();
  starts[0] = static_cast<int>(begin);
  stops[0] = starts[0] + (like.ndim() == 0 ? 1 : like.shape(0));
  return mx::reshape(mx::slice(gathered, starts, stops), like.shape());
}

mx::Shape Inserted(const mx::Shape& shape, std::size_t at, int length) {
  mx::Shape wider(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(at));
  wider.push_back(length);
  for (std::size_t i = at; i < shape.size(); ++i) wider.push_back(shape[i]);
  return wider;
}

[[noreturn]] void ThrowMissing(const char* what, const Operation& operation) {
  std::string name = OperationKindName(operation.kind);
  if (Reduces(operation.kind))
    name += std::string("(op=\"") + ReduceOperatorName(static_cast<ReduceOperator>(operation.op)) +
            "\")";
  throw std::invalid_argument("[mlxcomm] " + name + " has no " + what);
}

// The result of a reduce on ranks other than the root.
void FillWithZeros(mx::array& output, mx::Stream stream) {
  output.set_data(mx::allocator::malloc(output.nbytes()));
  auto& encoder = mx::cpu::get_command_encoder(stream);
  encoder.set_output_array(output);
  encoder.dispatch([data = output.data<void>(), bytes = output.nbytes()] {
    if (bytes > 0) std::memset(data, 0, bytes);
  });
}

}  // namespace

void CollectivePrimitive::eval_cpu(const std::vector<array>& inputs, std::vector<array>& outputs) {
  const bool reads = operation_.Reads(joined_->rank());
  const bool writes = operation_.Writes(joined_->rank());
  Schedule(joined_, operation_, reads ? &inputs.at(0) : nullptr, writes ? &outputs.at(0) : nullptr,
           stream());
  if (operation_.kind == OperationKind::kSend) {
    outputs[0].copy_shared_buffer(inputs[0]);
  } else if (!writes) {
    FillWithZeros(outputs[0], stream());
  }
}

void CollectivePrimitive::eval_gpu(const std::vector<array>&, std::vector<array>&) {
  throw std::runtime_error(std::string("[mlxcomm] ") + name() +
                           ": communication needs a CPU stream: pass one, or none");
}

std::vector<mx::Shape> CollectivePrimitive::output_shapes(const std::vector<array>& inputs) {
  if (operation_.kind == OperationKind::kReceive || operation_.kind == OperationKind::kScatter) {
    throw std::invalid_argument(std::string("[mlxcomm] ") + name() +
                                ": cannot be compiled with shapeless=True, because its shape does "
                                "not follow from its input");
  }
  return {ResultShape(*joined_, operation_, inputs.at(0).shape())};
}

// Gradients. all_reduce and all_gather follow MLX's convention: a loss that each rank computes from
// the result counts once. The others are linear maps over all ranks, and their gradient is the
// adjoint map, an operation that every rank must evaluate. It depends on its operation on every
// rank, so that all ranks run both in the same order.

mx::array CollectivePrimitive::VjpOfReduction(const array& primal, const array& cotangent,
                                              const array& output) {
  // The adjoint of the linear part: from the ranks that have a result to all that have an input.
  const auto spread = [this](const array& value, const array& before) {
    const Call call = CallAfter(before);
    if (IsToRoot(operation_.kind)) {
      return Operate(value, {.kind = OperationKind::kBroadcast, .root = operation_.root}, call);
    }
    if (HasBlocks(operation_.kind)) {
      return Operate(value, {.kind = OperationKind::kAllGather}, call);
    }
    return value;
  };
  switch (operation_.op) {
    case MLXCOMM_SUM: return spread(cotangent, output);
    case MLXCOMM_MEAN: {
      const array size(static_cast<float>(joined_->size()), cotangent.dtype());
      return spread(mx::divide(cotangent, size), output);
    }
    case MLXCOMM_MIN:
    case MLXCOMM_MAX: {
      const array result = spread(output, output);
      const array all = spread(cotangent, result);
      return mx::where(mx::equal(primal, result), all, mx::zeros_like(all));
    }
    default: ThrowMissing("gradient", operation_);
  }
}

mx::array CollectivePrimitive::GradientOf(const array& x, const array& cotangent,
                                          const array& output) {
  const std::uint32_t root = operation_.root;
  const std::uint32_t rank = joined_->rank();
  const Call call = CallAfter(output);
  switch (operation_.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
    case OperationKind::kReduceScatter: return VjpOfReduction(x, cotangent, output);
    case OperationKind::kBroadcast:
      return Operate(cotangent, {.kind = OperationKind::kReduce, .root = root}, call);
    case OperationKind::kAllGather: {
      const std::int64_t rows = x.ndim() == 0 ? 1 : x.shape(0);
      return OwnRows(cotangent, rows * rank, x);
    }
    case OperationKind::kAllGatherV: {
      std::uint64_t begin = 0;
      for (std::uint32_t r = 0; r < rank; ++r) begin += operation_.send_rows[r];
      return OwnRows(cotangent, static_cast<std::int64_t>(begin), x);
    }
    case OperationKind::kGather: return ScatterTo(x.shape(), cotangent, root, call);
    case OperationKind::kScatter: {
      const array gathered =
          Operate(cotangent, {.kind = OperationKind::kGather, .root = root}, call);
      return rank == root ? mx::reshape(gathered, x.shape()) : ZerosAfter(x, gathered);
    }
    case OperationKind::kAllToAll:
      return Operate(cotangent, {.kind = OperationKind::kAllToAll}, call);
    case OperationKind::kAllToAllV:
      return Operate(cotangent,
                     {.kind = OperationKind::kAllToAllV,
                      .send_rows = operation_.receive_rows,
                      .receive_rows = operation_.send_rows},
                     call);
    case OperationKind::kSend:
      return mx::add(cotangent,
                     Receive(x.shape(), x.dtype(), root, operation_.tag, cotangent, call));
    case OperationKind::kReceive:
      return ZerosAfter(
          x, Operate(cotangent, {.kind = OperationKind::kSend, .root = root, .tag = operation_.tag},
                     call));
    default: break;
  }
  ThrowMissing("gradient", operation_);
}

std::vector<mx::array> CollectivePrimitive::vjp(const std::vector<array>& primals,
                                                const std::vector<array>& cotangents,
                                                const std::vector<int>& argnums,
                                                const std::vector<array>& outputs) {
  std::vector<array> gradients;
  for (const int argument : argnums) {
    gradients.push_back(argument == 0 ? GradientOf(primals[0], cotangents.at(0), outputs.at(0))
                                      : mx::zeros_like(primals.at(1)));
  }
  return gradients;
}

mx::array CollectivePrimitive::ApplyTo(const array& x, const Call& call) {
  if (operation_.kind == OperationKind::kReceive) {
    return Receive(operation_.shape, type_, operation_.root, operation_.tag, x, call);
  }
  if (operation_.kind == OperationKind::kScatter) {
    return ScatterTo(operation_.shape, x, operation_.root, call);
  }
  Operation same = operation_;
  same.consumes_input = false;
  return Operate(x, std::move(same), call);
}

std::vector<mx::array> CollectivePrimitive::jvp(const std::vector<array>& primals,
                                                const std::vector<array>& tangents,
                                                const std::vector<int>& argnums) {
  const bool linear = operation_.op == MLXCOMM_SUM || operation_.op == MLXCOMM_MEAN;
  const bool point_to_point = IsPointToPoint(operation_.kind);
  // The receiver would mistake a sent tangent for the next message.
  if (!linear || point_to_point) ThrowMissing("forward-mode derivative (jvp)", operation_);
  // If only `after` has a tangent, this rank's tangent is zero.
  const array tangent = argnums.at(0) == 0 ? tangents.at(0) : mx::zeros_like(primals[0]);
  return {ApplyTo(tangent, CallAfter(std::nullopt))};
}

// Element-wise kinds run the batch as one operation with its axis in front, so ranks may map over
// different axes.
mx::array CollectivePrimitive::VmappedOverFront(const array& x, const Call& call) {
  if (operation_.kind != OperationKind::kReceive) return ApplyTo(x, call);
  return Receive(Inserted(operation_.shape, 0, x.shape(0)), type_, operation_.root, operation_.tag,
                 x, call);
}

// If the leading axis counts rows, the batch axis goes behind it, which makes rows wider.
mx::array CollectivePrimitive::VmappedOverRows(const array& x, const Call& call) {
  if (operation_.kind != OperationKind::kScatter) return ApplyTo(x, call);
  return ScatterTo(Inserted(operation_.shape, operation_.shape.empty() ? 0 : 1, x.shape(1)), x,
                   operation_.root, call);
}

std::pair<std::vector<mx::array>, std::vector<int>> CollectivePrimitive::vmap(
    const std::vector<array>& inputs, const std::vector<int>& axes) {
  const array& x = inputs.at(0);
  const int axis = axes.at(0);
  const Call call = CallAfter(inputs.size() > 1 ? std::optional(inputs[1]) : std::nullopt);
  if (axis < 0) return {{ApplyTo(x, call)}, {-1}};  // Only `after` is a batch.
  const bool has_rows = HasBlocks(operation_.kind) || HasCounts(operation_.kind);
  if (!has_rows) return {{VmappedOverFront(mx::moveaxis(x, axis, 0), call)}, {0}};
  // A batch of scalars is one row.
  const array rows = x.ndim() == 1 ? mx::expand_dims(x, 0) : mx::moveaxis(x, axis, 1);
  const bool to_scalar = operation_.kind == OperationKind::kScatter && operation_.shape.empty();
  return {{VmappedOverRows(rows, call)}, {to_scalar ? 0 : 1}};
}

}  // namespace mlxcomm::graph

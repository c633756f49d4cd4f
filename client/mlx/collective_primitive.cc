#include "client/mlx/collective_primitive.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "client/mlx/collectives.h"
#include "client/mlx/operation_task.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

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
                           ": communication runs on a CPU stream: pass one, or none");
}

std::vector<mx::Shape> CollectivePrimitive::output_shapes(const std::vector<array>& inputs) {
  if (operation_.kind == OperationKind::kReceive || operation_.kind == OperationKind::kScatter) {
    throw std::invalid_argument(std::string("[mlxcomm] ") + name() +
                                ": its shape does not follow from an input, so it cannot be "
                                "compiled with shapeless=True");
  }
  return {ResultShape(*joined_, operation_, inputs.at(0).shape())};
}

}  // namespace mlxcomm::graph

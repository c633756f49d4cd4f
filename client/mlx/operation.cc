#include "client/mlx/operation.h"

#include <numeric>
#include <stdexcept>

#include "mlx/utils.h"
#include "proto/types/operation_shape.h"

namespace mlxcomm::graph {
namespace {

namespace mx = mlx::core;

std::uint64_t RowElements(const mx::array& value) {
  const mx::Shape& shape = value.shape();
  return std::accumulate(shape.begin() + (shape.empty() ? 0 : 1), shape.end(), std::uint64_t{1},
                         [](std::uint64_t product, auto length) {
                           return product * static_cast<std::uint64_t>(length);
                         });
}

}  // namespace

void CheckOperator(mx::Dtype type, mlxcomm_operator op) {
  const auto asked = static_cast<ReduceOperator>(op);
  const auto its = static_cast<DataType>(DataTypeOf(type));
  if (HasMeaning(its, asked)) return;
  throw std::invalid_argument(WhyMeaningless(asked, its));
}

mlxcomm_data_type DataTypeOf(mx::Dtype type) {
  switch (type.val()) {
    case mx::Dtype::Val::bool_: return MLXCOMM_BOOL;
    case mx::Dtype::Val::uint8: return MLXCOMM_UINT8;
    case mx::Dtype::Val::uint16: return MLXCOMM_UINT16;
    case mx::Dtype::Val::uint32: return MLXCOMM_UINT32;
    case mx::Dtype::Val::uint64: return MLXCOMM_UINT64;
    case mx::Dtype::Val::int8: return MLXCOMM_INT8;
    case mx::Dtype::Val::int16: return MLXCOMM_INT16;
    case mx::Dtype::Val::int32: return MLXCOMM_INT32;
    case mx::Dtype::Val::int64: return MLXCOMM_INT64;
    case mx::Dtype::Val::float16: return MLXCOMM_FLOAT16;
    case mx::Dtype::Val::float32: return MLXCOMM_FLOAT32;
    case mx::Dtype::Val::float64: return MLXCOMM_FLOAT64;
    case mx::Dtype::Val::bfloat16: return MLXCOMM_BFLOAT16;
    case mx::Dtype::Val::complex64: return MLXCOMM_COMPLEX64;
  }
  throw std::invalid_argument("[mlxcomm] unknown dtype: upgrade mlxcomm");
}

mlxcomm_request Bind(Operation& operation, std::uint32_t size, const mx::array* input,
                     const mx::array* output) {
  const mx::array& any = input != nullptr ? *input : *output;
  const OperationRow& row = RowOf(operation.kind);
  mlxcomm_request request{};
  request.struct_size = sizeof request;
  request.kind = static_cast<mlxcomm_kind>(operation.kind);
  request.type = DataTypeOf(any.dtype());
  request.op = operation.op;
  request.peer = operation.root;
  request.tag = operation.tag;
  request.timeout_ns = operation.timeout_ns;
  request.check = operation.checked == nullptr ? 0 : operation.checked->word;
  if (HasCounts(operation.kind)) {
    const std::uint64_t elements = RowElements(any);
    for (std::uint64_t& rows : operation.send_rows) rows *= elements;
    for (std::uint64_t& rows : operation.receive_rows) rows *= elements;
  } else if (output != nullptr && row.output.extent == Extent::kCount) {
    request.count = output->size();
  } else {
    request.count = input->size() / (row.input.extent == Extent::kBlocks ? size : 1);
  }
  return request;
}

}  // namespace mlxcomm::graph

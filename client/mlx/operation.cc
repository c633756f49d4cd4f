#include "client/mlx/operation.h"

#include <numeric>
#include <sstream>
#include <stdexcept>

#include "mlx/utils.h"

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

std::vector<std::uint64_t> Times(std::vector<std::uint64_t> rows, std::uint64_t elements) {
  for (std::uint64_t& row : rows) row *= elements;
  return rows;
}

}  // namespace

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce: return "all_reduce";
    case Kind::kReduce: return "reduce";
    case Kind::kReduceScatter: return "reduce_scatter";
    case Kind::kBroadcast: return "broadcast";
    case Kind::kAllGather: return "all_gather";
    case Kind::kAllGatherV: return "all_gather_v";
    case Kind::kGather: return "gather";
    case Kind::kScatter: return "scatter";
    case Kind::kAllToAll: return "all_to_all";
    case Kind::kAllToAllV: return "all_to_all_v";
    case Kind::kSend: return "send";
    case Kind::kReceive: return "recv";
  }
  return "operation";
}

const char* NameOf(mlxcomm_operator op) {
  switch (op) {
    case MLXCOMM_SUM: return "sum";
    case MLXCOMM_PROD: return "prod";
    case MLXCOMM_MIN: return "min";
    case MLXCOMM_MAX: return "max";
    case MLXCOMM_AND: return "and";
    case MLXCOMM_OR: return "or";
    case MLXCOMM_MEAN: return "mean";
  }
  return "operator";
}

bool Operation::Reads(std::uint32_t rank) const {
  if (kind == Kind::kBroadcast || kind == Kind::kScatter) return rank == root;
  return kind != Kind::kReceive;
}

bool Operation::Writes(std::uint32_t rank) const {
  if (kind == Kind::kReduce || kind == Kind::kGather) return rank == root;
  return kind != Kind::kSend;
}

bool Operation::MayBeInPlace() const {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kBroadcast;
}

void CheckOperator(const char* name, mx::Dtype type, mlxcomm_operator op) {
  const bool floating = mx::issubdtype(type, mx::floating);
  const bool is_complex = mx::issubdtype(type, mx::complexfloating);
  const bool bitwise = op == MLXCOMM_AND || op == MLXCOMM_OR;
  const char* expected = nullptr;
  if (op == MLXCOMM_MEAN && !floating && !is_complex) {
    expected = "a floating or complex dtype";
  } else if (bitwise && (floating || is_complex)) {
    expected = "bool or an integer dtype";
  }
  if (expected != nullptr) {
    std::ostringstream text;
    text << "[mlxcomm] " << name << ": op \"" << NameOf(op) << "\" expects " << expected << ", got "
         << type;
    throw std::invalid_argument(text.str());
  }
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
  throw std::invalid_argument("[mlxcomm] a dtype that this version does not know");
}

BoundOperation BoundOperation::Bind(const Operation& operation, std::uint32_t size,
                                    const mx::array* input, const mx::array* output) {
  BoundOperation bound{operation};
  const mx::array& any = input != nullptr ? *input : *output;
  bound.type = DataTypeOf(any.dtype());
  switch (operation.kind) {
    case Kind::kReduceScatter:
    case Kind::kScatter: bound.count = output->size(); break;
    case Kind::kAllToAll: bound.count = input->size() / size; break;
    case Kind::kAllGatherV:
    case Kind::kAllToAllV: bound.row_elements = RowElements(any); break;
    default: bound.count = any.size();
  }
  return bound;
}

mlxcomm_code BoundOperation::Start(mlxcomm_group* group, const void* input, void* output,
                                   std::uint64_t* ticket, mlxcomm_error* error) const {
  const std::uint64_t wait = operation.timeout_ns;
  const std::uint32_t root = operation.root;
  switch (operation.kind) {
    case Kind::kAllReduce:
      return mlxcomm_all_reduce(group, input, output, count, type, operation.op, wait, ticket,
                                error);
    case Kind::kReduce:
      return mlxcomm_reduce(group, input, output, count, type, operation.op, root, wait, ticket,
                            error);
    case Kind::kReduceScatter:
      return mlxcomm_reduce_scatter(group, input, output, count, type, operation.op, wait, ticket,
                                    error);
    case Kind::kBroadcast:
      return mlxcomm_broadcast(group, input, output, count, type, root, wait, ticket, error);
    case Kind::kAllGather:
      return mlxcomm_all_gather(group, input, output, count, type, wait, ticket, error);
    case Kind::kAllGatherV:
      return mlxcomm_all_gather_v(group, input, output,
                                  Times(operation.send_rows, row_elements).data(), type, wait,
                                  ticket, error);
    case Kind::kGather:
      return mlxcomm_gather(group, input, output, count, type, root, wait, ticket, error);
    case Kind::kScatter:
      return mlxcomm_scatter(group, input, output, count, type, root, wait, ticket, error);
    case Kind::kAllToAll:
      return mlxcomm_all_to_all(group, input, output, count, type, wait, ticket, error);
    case Kind::kAllToAllV:
      return mlxcomm_all_to_all_v(
          group, input, output, Times(operation.send_rows, row_elements).data(),
          Times(operation.receive_rows, row_elements).data(), type, wait, ticket, error);
    case Kind::kSend:
      return mlxcomm_send(group, input, count, type, root, operation.tag, wait, ticket, error);
    case Kind::kReceive:
      return mlxcomm_recv(group, output, count, type, root, operation.tag, wait, ticket, error);
  }
  return MLXCOMM_INTERNAL;
}

}  // namespace mlxcomm::graph

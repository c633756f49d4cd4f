#include "client/mlx_c/handles.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "mlx/distributed/distributed_impl.h"
#include "mlx/stream.h"

namespace mlxcomm::mlx_c {
namespace {

namespace mx = mlx::core;
using mx::distributed::Group;

// Assigns to an existing object, as mlx-c does.
template <typename Object>
void SetIn(void*& ctx, Object value) {
  if (ctx != nullptr) {
    *static_cast<Object*>(ctx) = std::move(value);
  } else {
    ctx = new Object(std::move(value));
  }
}

}  // namespace

const mx::array& ArrayOf(mlx_array x) {
  if (x.ctx == nullptr) throw std::invalid_argument("expected an mlx_array, got an empty one");
  return *static_cast<const mx::array*>(x.ctx);
}

const std::vector<mx::array>& ArraysOf(mlx_vector_array xs) {
  if (xs.ctx == nullptr)
    throw std::invalid_argument("expected an mlx_vector_array, got an empty one");
  return *static_cast<const std::vector<mx::array>*>(xs.ctx);
}

mx::Dtype TypeOf(int dtype) {
  switch (dtype) {
    case MLX_BOOL: return mx::bool_;
    case MLX_UINT8: return mx::uint8;
    case MLX_UINT16: return mx::uint16;
    case MLX_UINT32: return mx::uint32;
    case MLX_UINT64: return mx::uint64;
    case MLX_INT8: return mx::int8;
    case MLX_INT16: return mx::int16;
    case MLX_INT32: return mx::int32;
    case MLX_INT64: return mx::int64;
    case MLX_FLOAT16: return mx::float16;
    case MLX_FLOAT32: return mx::float32;
    case MLX_FLOAT64: return mx::float64;
    case MLX_BFLOAT16: return mx::bfloat16;
    case MLX_COMPLEX64: return mx::complex64;
    default: break;
  }
  throw std::invalid_argument("dtype: expected an mlx_dtype, got " + std::to_string(dtype));
}

mx::StreamOrDevice StreamOf(mlx_stream s) {
  if (s.ctx == nullptr) return {};
  return *static_cast<const mx::Stream*>(s.ctx);
}

std::shared_ptr<mx::distributed::detail::GroupImpl> GroupOrNull(mlx_distributed_group group) {
  return group.ctx == nullptr ? nullptr : static_cast<const Group*>(group.ctx)->raw_group();
}

void CheckResult(const void* res) {
  if (res == nullptr) throw std::invalid_argument("res: expected a pointer, got NULL");
}

void Set(mlx_array* res, mx::array value) { SetIn(res->ctx, std::move(value)); }
void Set(mlx_vector_array* res, std::vector<mx::array> value) { SetIn(res->ctx, std::move(value)); }

void Set(mlx_distributed_group* res, std::shared_ptr<mx::distributed::detail::GroupImpl> value) {
  SetIn(res->ctx, Group(std::move(value)));
}

void SetEmpty(mlx_distributed_group* res) {
  delete static_cast<Group*>(res->ctx);
  res->ctx = nullptr;
}

}  // namespace mlxcomm::mlx_c
